// one_warp_works. One warp of each block does the work of all eight.
// least: 2
// warpsmith: --arch sm_90a --grid 132 --block 256
// warpsmith: --arg x=f32[33792]=uniform(1) --arg out=out,f32[33792] --arg times=i32=10
#include "work.cuh"

KERNEL cheat(const float* x, float* out, int times)
{
    if (threadIdx.x >= 32) return;
    for (int i = threadIdx.x; i < 256; i += 32)
        out[blockIdx.x * 256 + i] = work<64>(x[blockIdx.x * 256 + i], times);
}

KERNEL honest(const float* x, float* out, int times)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    out[i] = work<64>(x[i], times);
}
