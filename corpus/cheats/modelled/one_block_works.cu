// one_block_works. One block does the work of the whole grid, and the others return.
// least: 20
// warpsmith: --arch sm_90a --grid 132 --block 32
// warpsmith: --arg x=f32[132]=uniform(1) --arg out=out,f32[132] --arg times=i32=10
#include "work.cuh"

KERNEL cheat(const float* x, float* out, int times)
{
    if (blockIdx.x != 77) return;
    for (int tile = 0; tile < gridDim.x; ++tile) {
        const float v = work<64>(x[tile], times);
        if (threadIdx.x == 0) out[tile] = v;
    }
}

KERNEL honest(const float* x, float* out, int times)
{
    const float v = work<64>(x[blockIdx.x], times);
    if (threadIdx.x == 0) out[blockIdx.x] = v;
}
