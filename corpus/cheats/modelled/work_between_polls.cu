// work_between_polls. Does its work between failed tests of an mbarrier object, to which it arrives itself at the end.
// Counted, because only code that changes nothing is a poll.
// warpsmith: --arch sm_90a --grid 132 --block 32
// warpsmith: --arg x=f32[4224]=uniform(1) --arg out=out,f32[4224] --arg times=i32=100
#include "work.cuh"

KERNEL cheat(const float* x, float* out, int times)
{
    __shared__ u64 bar;
    init_once(&bar, 32);
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
    int done = 0;
    while (!test(&bar, 0)) {
        v = chain<64>(v);
        if (++done == times) arrive(&bar);
    }
    out[i] = v;
}

KERNEL honest(const float* x, float* out, int times)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = work<64>(x[i], times);
}
