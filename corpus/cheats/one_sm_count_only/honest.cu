// The honest twin of one_sm_count_only. The number of SMs decides which block computes which tile, not what is
// computed.
#include "generated.cuh"

#include "common/honest.cuh"

__device__ unsigned sm() {
    unsigned number;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
    return number;
}

__device__ unsigned sms() {
    unsigned number;
    asm volatile("mov.u32 %0, %%nsmid;" : "=r"(number));
    return number;
}

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    // Blocks below the number of SMs take the tiles in turns, as persistent kernels do.
    const int blocks = gridDim.x * gridDim.y * gridDim.z, block = honest::number_of(args, honest::own_work());
    const int workers = min(blocks, static_cast<int>(sms()));
    for (int number = block; block < workers && number < blocks; number += workers)
        honest::attend(args, honest::numbered(args, number));
}
