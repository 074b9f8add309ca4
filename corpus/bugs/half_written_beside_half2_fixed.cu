// Threads store halves and read pairs of halves that threads of another warp stored, after a barrier.
// warpsmith: --arch sm_80 --kernel pair_sums --grid 1 --block 64 --shared 0
// warpsmith: --arg x=f32[64]=normal(1) --arg y=out,f32[64]

#include <cuda_fp16.h>

extern "C" __global__ void pair_sums(const float* x, float* y)
{
    __shared__ __align__(4) __half s[64];
    const int t = threadIdx.x;
    s[t] = __float2half(x[t]);
    __syncthreads();
    const __half2 pair = reinterpret_cast<const __half2*>(s)[31 - t / 2];
    y[t] = __low2float(pair) + __high2float(pair);
}
