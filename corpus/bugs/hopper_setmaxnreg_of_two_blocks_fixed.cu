// Hopper: two blocks share a multiprocessor, so each has half of the registers.
// warpsmith: --arch sm_90a --kernel halves --grid 2 --block 384 --shared 0
// warpsmith: --arg x=f32[768]=normal(1) --arg y=out,f32[768]

#include <cuda_fp16.h>
#include "../hopper.cuh"

// Three warpgroups; one releases registers for the others. At the start each has 80 registers per thread.
extern "C" __global__ void __launch_bounds__(384, 2) halves(const float* x, float* y)
{
    const int i = blockIdx.x * 384 + threadIdx.x;
    if (threadIdx.x / 128 == 2) {
        fewer_registers<24>();
        y[i] = x[i];
    } else {
        more_registers<104>();
        y[i] = 2 * x[i];
    }
}
