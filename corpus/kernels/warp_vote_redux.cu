// Warp-wide integer operations: redux add/min/max/and/or/xor, votes, match_all, and ballot-based ranks.
// Expected per warp of 32: the six reductions, any/all/uni/same-sign flags, and each odd lane's rank among odd ones.
// warpsmith: --arch sm_80 --kernel warp_ops --grid 2 --block 64 --shared 0
// warpsmith: --arg in=i32[128]=randint(135,-1000,1000) --arg red=out,i32[4,6] --arg flags=out,i32[4]
// warpsmith: --arg rank=out,i32[128]

extern "C" __global__ void warp_ops(const int* in, int* red, int* flags, int* rank)
{
    constexpr unsigned ALL = 0xffffffffu;
    const int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31, warp = i / 32;
    const int v = in[i];
    const unsigned u = (unsigned)v;
    const int sum = __reduce_add_sync(ALL, v), low = __reduce_min_sync(ALL, v), high = __reduce_max_sync(ALL, v);
    const unsigned all_bits = __reduce_and_sync(ALL, u), any_bits = __reduce_or_sync(ALL, u);
    const unsigned odd_bits = __reduce_xor_sync(ALL, u);
    int same;
    __match_all_sync(ALL, v >> 31, &same);
    const int any = __any_sync(ALL, v > 900), all = __all_sync(ALL, v > -990), uni = __uni_sync(ALL, v & 1);
    const unsigned odd = __ballot_sync(ALL, v & 1);
    rank[i] = v & 1 ? __popc(odd & ((1u << lane) - 1)) : -1;
    if (lane == 0) {
        int* r = red + warp * 6;
        r[0] = sum;
        r[1] = low;
        r[2] = high;
        r[3] = (int)all_bits;
        r[4] = (int)any_bits;
        r[5] = (int)odd_bits;
        flags[warp] = (any != 0) | (all != 0) << 1 | (uni != 0) << 2 | (same != 0) << 3;
    }
}
