// Warp-aggregated counting by key with __match_any_sync. Lanes past the end skip the branch but are named in the mask,
// and they have not exited.
// warpsmith: --arch sm_80 --kernel count_keys --grid 1 --block 96 --shared 0
// warpsmith: --arg keys=i32[80]=randint(3,0,7) --arg counts=inout,i32[7]=zeros --arg used=out,i32[96] --arg n=i32=80

extern "C" __global__ void count_keys(const int* keys, int* counts, int* used, int n)
{
    const int i = threadIdx.x, lane = i & 31;
    int peer_count = 0;
    if (i < n) {
        const int key = keys[i];
        const unsigned peers = __match_any_sync(0xffffffffu, key); //~ warp-mask
        peer_count = __popc(peers);
        if (lane == __ffs(peers) - 1)
            atomicAdd(&counts[key], peer_count);
    }
    used[i] = peer_count;
}
