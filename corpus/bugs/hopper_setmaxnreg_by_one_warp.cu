// Hopper: only one warp of the warpgroup releases registers; all four must.
// warpsmith: --arch sm_90a --kernel shares --grid 1 --block 384 --shared 0
// warpsmith: --arg x=f32[384]=normal(1) --arg y=out,f32[384]

#include <cuda_fp16.h>
#include "../hopper.cuh"

// Three warpgroups; one releases registers for the others. At the start each has 168 registers per thread.
extern "C" __global__ void __launch_bounds__(384, 1) shares(const float* x, float* y)
{
    if (threadIdx.x / 128 == 2) {
        if (threadIdx.x / 32 == 8)
            fewer_registers<40>(); //~ divergent-warp-op
        y[threadIdx.x] = x[threadIdx.x];
    } else {
        more_registers<232>();
        y[threadIdx.x] = 2 * x[threadIdx.x];
    }
}
