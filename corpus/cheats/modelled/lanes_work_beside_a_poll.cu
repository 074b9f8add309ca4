// lanes_work_beside_a_poll. One lane polls while the other lanes of its warp work. Their code runs between two of its
// tests. Counted, because other lanes run it than those that poll.
// warpsmith: --arch sm_90a --grid 132 --block 32
// warpsmith: --arg x=f32[4224]=uniform(1) --arg out=out,f32[4224] --arg times=i32=4
#include "work.cuh"

KERNEL cheat(const float* x, float* out, int times)
{
    __shared__ u64 bar;
    init_once(&bar, 31);
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
    if (threadIdx.x == 0) {
        while (!test(&bar, 0)) {}
        v = 0.0f;
    } else {
        v = work<1000>(v, times);
        arrive(&bar);
    }
    out[i] = v;
}

KERNEL honest(const float* x, float* out, int times)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = threadIdx.x == 0 ? 0.0f : work<1000>(x[i], times);
}
