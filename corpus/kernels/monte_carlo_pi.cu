// Monte Carlo with a 64-bit xorshift per thread, hits counted by ballot and one atomic per warp.
// Expected: hits[0] exactly (the generator is integer, the test exact in 64-bit integers).
// warpsmith: --arch sm_80 --kernel pi --grid 2 --block 64 --shared 0
// warpsmith: --arg hits=inout,u64[1]=zeros --arg seed=u64=88172645463325252 --arg rounds=i32=40

extern "C" __global__ void pi(unsigned long long* hits, unsigned long long seed, int rounds)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned long long s = seed ^ (i + 1) * 0x9E3779B97F4A7C15ull;
    unsigned count = 0;
    for (int r = 0; r < rounds; ++r) {
        s ^= s << 13;
        s ^= s >> 7;
        s ^= s << 17;
        const unsigned long long x = s >> 40, y = s & 0xffffffu;
        const unsigned inside = __ballot_sync(0xffffffffu, x * x + y * y < 1ull << 48);
        count += __popc(inside);
    }
    if ((threadIdx.x & 31) == 0)
        atomicAdd(hits, (unsigned long long)count);
}
