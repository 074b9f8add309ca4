// work_between_atomics. Does its work between failed attempts to take a lock that it releases itself. Counted: only
// tests of mbarrier objects are left out.
// warpsmith: --arch sm_90a --grid 132 --block 32
// warpsmith: --arg x=f32[4224]=uniform(1) --arg out=out,f32[4224] --arg locks=inout,u32[4224]=const(1) --arg times=i32=40
#include "work.cuh"

KERNEL cheat(const float* x, float* out, u32* locks, int times)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
    int done = 0;
    while (atomicCAS(locks + i, 0u, 2u) == 1u) {
        v = chain<64>(v);
        if (++done == times) atomicExch(locks + i, 0u);
    }
    out[i] = v;
}

KERNEL honest(const float* x, float* out, u32* locks, int times)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = work<64>(x[i], times);
    locks[i] = 2;
}
