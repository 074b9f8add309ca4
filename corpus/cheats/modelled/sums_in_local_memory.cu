// sums_in_local_memory. Keeps its sums in local memory, where an index that the compiler does not know puts them.
// warpsmith: --arch sm_90a --grid 132 --block 128
// warpsmith: --arg x=f32[16896]=uniform(1) --arg out=out,f32[16896] --arg times=i32=1024 --arg step=i32=1
#include "work.cuh"

KERNEL cheat(const float* x, float* out, int times, int step)
{
    const int i = blockIdx.x * 128 + threadIdx.x;
    float sums[8] = {};
    int at = 0;
#pragma unroll 1
    for (int n = 0; n < times; ++n) {
        sums[at] = fmaf(sums[at], 0.75f, x[i]);
        at = (at + step) & 7;
    }
    float sum = 0.0f;
    for (int n = 0; n < 8; ++n) sum += sums[n];
    out[i] = sum;
}

KERNEL honest(const float* x, float* out, int times, int step)
{
    const int i = blockIdx.x * 128 + threadIdx.x;
    float sums[8] = {};
#pragma unroll 1
    for (int n = 0; n < times; n += 8)
#pragma unroll
        for (int at = 0; at < 8; ++at) sums[at] = fmaf(sums[at], 0.75f, x[i]);
    float sum = 0.0f;
    for (int n = 0; n < 8; ++n) sum += sums[n];
    out[i] = sum;
}
