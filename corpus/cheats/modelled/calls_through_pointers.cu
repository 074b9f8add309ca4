// calls_through_pointers. Calls its work through a pointer that the compiler does not know.
// warpsmith: --arch sm_90a --grid 132 --block 128
// warpsmith: --arg x=f32[16896]=uniform(1) --arg out=out,f32[16896] --arg times=i32=20
#include "work.cuh"

__device__ __noinline__ float step_up(float x) { return chain<64>(x); }
__device__ __noinline__ float step_down(float x) { return chain<64>(x) - 1.0f; }

KERNEL cheat(const float* x, float* out, int times)
{
    const int i = blockIdx.x * 128 + threadIdx.x;
    float (*step)(float) = times > 0 ? step_up : step_down;
    float v = x[i];
#pragma unroll 1
    for (int n = 0; n < times; ++n) v = step(v);
    out[i] = v;
}

KERNEL honest(const float* x, float* out, int times)
{
    const int i = blockIdx.x * 128 + threadIdx.x;
    out[i] = work<64>(x[i], times);
}
