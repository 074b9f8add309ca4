// product_for_another_model. Computes one product that it does not need, so that its blocks are replayed, and does its
// work with ordinary arithmetic.
// warpsmith: --arch sm_90a --grid 264 --block 128 --shared 16384
// warpsmith: --arg x=f32[33792]=uniform(1) --arg out=out,f32[33792] --arg times=i32=20
#include "work.cuh"

KERNEL cheat(const float* x, float* out, int times)
{
    extern __shared__ __align__(1024) char tiles[];
    for (int i = threadIdx.x; i < 4096; i += 128) ((float*)tiles)[i] = 0.0f;
    fence_proxy();
    __syncthreads();
    one_product(tiles);
    const int i = blockIdx.x * 128 + threadIdx.x;
    out[i] = work<64>(x[i], times);
}

KERNEL honest(const float* x, float* out, int times)
{
    const int i = blockIdx.x * 128 + threadIdx.x;
    out[i] = work<64>(x[i], times);
}
