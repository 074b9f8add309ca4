// lanes_one_by_one. The lanes of a warp work one after another.
// least: 5
// warpsmith: --arch sm_90a --grid 132 --block 32
// warpsmith: --arg x=f32[4224]=uniform(1) --arg out=out,f32[4224] --arg times=i32=4
#include "work.cuh"

KERNEL cheat(const float* x, float* out, int times)
{
    const int i = blockIdx.x * 32 + threadIdx.x;
#pragma unroll 1
    for (int lane = 0; lane < 32; ++lane)
        if (threadIdx.x == lane) out[i] = work<64>(x[i], times);
}

KERNEL honest(const float* x, float* out, int times)
{
    const int i = blockIdx.x * 32 + threadIdx.x;
    out[i] = work<64>(x[i], times);
}
