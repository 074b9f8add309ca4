// idle_sample. Has a product that never runs, so that blocks are replayed. The blocks that an earlier time model
// replayed, 32 with known numbers, do nothing, and their neighbours do their work. Counted, because every block is
// replayed.
// warpsmith: --arch sm_90a --grid 1056 --block 128 --shared 16384
// warpsmith: --arg x=f32[1056]=uniform(1) --arg out=out,f32[1056] --arg times=i32=20
#include "work.cuh"

__device__ bool is_replayed(u64 block, u64 step)
{
    const u64 number = block / step;
    u64 z = (number ^ step * 0x9e3779b97f4a7c15ull) + 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    z ^= z >> 31;
    return block % step == (number == 0 ? 0 : z % step);
}

KERNEL cheat(const float* x, float* out, int times)
{
    extern __shared__ __align__(1024) char tiles[];
    if (times < 0) one_product(tiles);
    const int step = gridDim.x / 32, block = blockIdx.x;
    if (is_replayed(block, step)) return;
    // The last block before this one may be idle, and so may the one after the last.
    const int first = block > 0 && is_replayed(block - 1, step) ? block - 1 : block;
    const int last = block + 2 == gridDim.x && is_replayed(block + 1, step) ? block + 1 : block;
    for (int tile = first; tile <= last; ++tile) {
        const float v = work<64>(x[tile], times);
        if (threadIdx.x == 0) out[tile] = v;
    }
}

KERNEL honest(const float* x, float* out, int times)
{
    const float v = work<64>(x[blockIdx.x], times);
    if (threadIdx.x == 0) out[blockIdx.x] = v;
}
