// relay_at_barriers. The warps of a block work one after another and wait for each other at barriers. An earlier time
// model let them work at the same time.
// warpsmith: --arch sm_90a --grid 132 --block 256
// warpsmith: --arg x=f32[132]=uniform(1) --arg out=out,f32[132] --arg times=i32=10
#include "work.cuh"

KERNEL cheat(const float* x, float* out, int times)
{
    __shared__ float v;
    if (threadIdx.x == 0) v = x[blockIdx.x];
    __syncthreads();
    for (int turn = 0; turn < 8; ++turn) {
        if (threadIdx.x / 32 == turn) {
            const float mine = work<64>(v, times);
            __syncwarp();
            if (threadIdx.x % 32 == 0) v = mine;
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = v;
}

KERNEL honest(const float* x, float* out, int times)
{
    const float v = work<64>(x[blockIdx.x], 8 * times);
    if (threadIdx.x == 0) out[blockIdx.x] = v;
}
