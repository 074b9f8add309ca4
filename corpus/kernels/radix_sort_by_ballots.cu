// Sorts 64 keys of 8 bits per block, bit by bit: ballots rank the zeros and ones of each warp, and shared memory holds the
// counts of the warps.
// Expected: each block of 64 keys sorted.
// warpsmith: --arch sm_80 --kernel radix --grid 3 --block 64 --shared 0
// warpsmith: --arg keys=inout,u32[3,64]=randint(9,0,256)

extern "C" __global__ void radix(unsigned* keys)
{
    __shared__ unsigned s[64];
    __shared__ int zeros[2];
    const int t = threadIdx.x, lane = t % 32, warp = t / 32;
    unsigned key = keys[blockIdx.x * 64 + t];
    for (int bit = 0; bit < 8; ++bit) {
        const bool one = key >> bit & 1;
        const unsigned votes = __ballot_sync(0xffffffffu, !one);
        if (lane == 0)
            zeros[warp] = __popc(votes);
        __syncthreads();
        const int before = __popc(votes & ((1u << lane) - 1));
        const int zeros_before = before + (warp ? zeros[0] : 0);
        const int place = one ? zeros[0] + zeros[1] + t - zeros_before : zeros_before;
        s[place] = key;
        __syncthreads();
        key = s[t];
        __syncthreads();
    }
    keys[blockIdx.x * 64 + t] = key;
}
