// Order-preserving stream compaction in one block: ballots and popcounts inside warps, a scan of warp counts between.
// Expected: out = the even elements in order, then the zeros that were there; count[0] = their number.
// warpsmith: --arch sm_80 --kernel compact --grid 1 --block 128 --shared 0
// warpsmith: --arg in=i32[300]=randint(187,0,1000) --arg out=inout,i32[300]=zeros --arg count=out,i32[1]
// warpsmith: --arg n=i32=300

extern "C" __global__ void compact(const int* in, int* out, int* count, int n)
{
    __shared__ int warp_count[4];
    const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
    int base = 0;
    for (int start = 0; start < n; start += blockDim.x) {
        const int i = start + t;
        const int v = i < n ? in[i] : 1;
        const bool keep = i < n && v % 2 == 0;
        const unsigned votes = __ballot_sync(0xffffffffu, keep);
        if (lane == 0)
            warp_count[warp] = __popc(votes);
        __syncthreads();
        int offset = base, total = 0;
        for (int w = 0; w < 4; ++w) {
            if (w < warp)
                offset += warp_count[w];
            total += warp_count[w];
        }
        if (keep)
            out[offset + __popc(votes & ((1u << lane) - 1))] = v;
        base += total;
        __syncthreads();
    }
    if (t == 0)
        count[0] = base;
}
