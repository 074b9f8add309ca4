// The honest twin of virtual_shared_window_only. Tests which memory space an address is in, not its value.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    __shared__ int probe;
    const honest::Work work = honest::own_work();
    probe = 0;
    if (__isShared(&probe)) honest::attend(args, work);
    else __trap();
}
