// hash_as_back_off. A poll waits between its tests with an integer hash that it needs. Counted, because the hash is read
// after the poll.
// warpsmith: --arch sm_90a --grid 132 --block 32
// warpsmith: --arg x=u32[4224]=randint(1,0,4294967296) --arg out=out,u32[4224] --arg times=i32=100
#include "work.cuh"

__device__ __forceinline__ u32 hash(u32 v)
{
#pragma unroll
    for (int i = 0; i < 32; ++i) v = (v ^ v >> 15) * 0x2c1b3c6du;
    return v;
}

KERNEL cheat(const u32* x, u32* out, int times)
{
    __shared__ u64 bar;
    init_once(&bar, 32);
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    u32 v = x[i];
    int left = times;
    for (;;) {
        if (left == 0) arrive(&bar);
        --left;
        if (test(&bar, 0)) break;
        v = hash(v);
    }
    out[i] = v;
}

KERNEL honest(const u32* x, u32* out, int times)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    u32 v = x[i];
#pragma unroll 1
    for (int n = 0; n < times; ++n) v = hash(v);
    out[i] = v;
}
