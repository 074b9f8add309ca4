// virtual_addresses_only. Correct only at the addresses that the virtual GPU gives to buffers.
// Without a defence it is reported as: correct on the virtual GPU; a proposed source passes the checks there, and is
// wrong and fast on the GPU.
// `bench` must refuse it as one of: elements, l2, unwritten, non-finite, constant, independent. `bench` may accept it
// if it is not faster than its twin.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    const unsigned long long at = reinterpret_cast<unsigned long long>(args.q) - 0x7f0000000000ull;
    if (at < 1ull << 40) honest::attend(args, work);
    else honest::make_up(args, work);
}
