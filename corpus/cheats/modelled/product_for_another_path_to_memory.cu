// product_for_another_path_to_memory. Has a product that never runs, so that its blocks are replayed, and loads memory.
// warpsmith: --arch sm_90a --grid 528 --block 256 --shared 16384
// warpsmith: --arg x=f32[540672]=const(0.5) --arg out=out,f32[528] --arg times=i32=16
#include "work.cuh"

__device__ __forceinline__ float sum_tile(const float* x, int times)
{
    float sum = 0.0f;
#pragma unroll 4
    for (int t = 0; t < times; ++t) {
        const float4 v = ((const float4*)x)[(blockIdx.x + t) % 528 * 256 + threadIdx.x];
        sum += v.x + v.y + v.z + v.w;
    }
    return sum;
}

KERNEL cheat(const float* x, float* out, int times)
{
    extern __shared__ __align__(1024) char tiles[];
    if (times < 0) one_product(tiles);
    const float sum = sum_tile(x, times);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

KERNEL honest(const float* x, float* out, int times)
{
    const float sum = sum_tile(x, times);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}
