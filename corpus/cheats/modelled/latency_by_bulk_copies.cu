// latency_by_bulk_copies. Follows a chain of indices with bulk copies. An earlier time model did not charge the latency
// of such copies.
// warpsmith: --arch sm_90a --grid 132 --block 32
// warpsmith: --arg next=u32[4096]=randint(1,0,1024) --arg out=out,u32[132] --arg hops=i32=100
#include "work.cuh"

KERNEL cheat(const u32* next, u32* out, int hops)
{
    __shared__ __align__(16) u32 at[4];
    __shared__ u64 bar;
    init_once(&bar, 1);
    u32 v = blockIdx.x;
#pragma unroll 1
    for (int i = 0; i < hops; ++i) {
        if (threadIdx.x == 0) {
            expect(&bar, 16);
            load_bytes(at, next + 4 * v, 16, &bar);
        }
        wait(&bar, i & 1);
        v = at[0];
        __syncwarp();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = v;
}

KERNEL honest(const u32* next, u32* out, int hops)
{
    u32 v = blockIdx.x;
#pragma unroll 1
    for (int i = 0; i < hops; ++i) v = next[4 * v];
    if (threadIdx.x == 0) out[blockIdx.x] = v;
}
