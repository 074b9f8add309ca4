// Hopper: the producer releases its registers only after the first tile is consumed, but the consumers need them before.
// warpsmith: --arch sm_90a --kernel order --grid 1 --block 384 --shared 0
// warpsmith: --arg x=f32[384]=normal(1) --arg y=out,f32[384]

#include <cuda_fp16.h>
#include "../hopper.cuh"

// Three warpgroups; one releases registers for the others. At the start each has 168 registers per thread.
extern "C" __global__ void __launch_bounds__(384, 1) order(const float* x, float* y)
{
    __shared__ u64 consumed;
    if (threadIdx.x == 0) {
        init(&consumed, 256);
        fence_init();
    }
    __syncthreads();
    if (threadIdx.x / 128 == 2) {
        wait(&consumed, 0);
        fewer_registers<40>();
        y[threadIdx.x] = x[threadIdx.x];
    } else {
        more_registers<232>(); //~ registers
        y[threadIdx.x] = 2 * x[threadIdx.x];
        arrive(&consumed);
    }
}
