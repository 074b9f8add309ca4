// latency_by_copies. Follows a chain of indices with asynchronous copies, and waits for each in another basic block than
// the copy. An earlier time model did not charge the latency of such copies.
// warpsmith: --arch sm_90a --grid 132 --block 32
// warpsmith: --arg next=u32[4096]=randint(1,0,4096) --arg out=out,u32[132] --arg hops=i32=100
#include "work.cuh"

KERNEL cheat(const u32* next, u32* out, int hops)
{
    __shared__ u32 at[32];
    u32 v = blockIdx.x;
#pragma unroll 1
    for (int i = 0; i < hops; ++i) {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(address(at + threadIdx.x)), "l"(next + v) : "memory");
        asm volatile("cp.async.commit_group;" ::: "memory");
        if (v >= 4096) break;
        asm volatile("cp.async.wait_group 0;" ::: "memory");
        v = at[threadIdx.x];
    }
    if (threadIdx.x == 0) out[blockIdx.x] = v;
}

KERNEL honest(const u32* next, u32* out, int hops)
{
    u32 v = blockIdx.x;
#pragma unroll 1
    for (int i = 0; i < hops; ++i) v = next[v];
    if (threadIdx.x == 0) out[blockIdx.x] = v;
}
