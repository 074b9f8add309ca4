// virtual_shared_window_only. Correct only if shared memory starts at the generic address 2^40, as on the virtual
// GPU.
// Without a defence it is reported as: correct on the virtual GPU.
// `check` and `bench` must refuse it as one of: elements, l2, unwritten, non-finite, constant, independent.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    __shared__ int probe;
    const honest::Work work = honest::own_work();
    const unsigned long long window = reinterpret_cast<unsigned long long>(&probe) >> 32;
    if (window == 0x100) honest::attend(args, work);
    else honest::make_up(args, work);
}
