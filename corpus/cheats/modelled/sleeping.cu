// sleeping. Sleeps for 20 microseconds. An earlier time model did not charge it.
// least: 5
// warpsmith: --arch sm_90a --grid 132 --block 32
// warpsmith: --arg x=f32[132]=uniform(1) --arg out=out,f32[132]
#include "work.cuh"

KERNEL cheat(const float* x, float* out)
{
    __nanosleep(20000);
    if (threadIdx.x == 0) out[blockIdx.x] = x[blockIdx.x];
}

KERNEL honest(const float* x, float* out)
{
    if (threadIdx.x == 0) out[blockIdx.x] = x[blockIdx.x];
}
