// The halves of a warp take different branches, and each shuffles, votes and synchronises under its own mask. A third
// of the warps has exited by then; the rest synchronise on a named barrier that counts only them.
// Expected: low halves give the sum, high halves the maximum of their 16 elements, for warps 0 and 1; warp 2 gives
// -1.
// warpsmith: --arch sm_80 --kernel halves --grid 2 --block 96 --shared 0
// warpsmith: --arg x=i32[192]=randint(252,0,1000) --arg out=out,i32[2,6] --arg both=out,i32[2]

extern "C" __global__ void halves(const int* x, int* out, int* both)
{
    __shared__ int s[4];
    const int t = threadIdx.x, warp = t / 32, lane = t % 32;
    int v = x[blockIdx.x * 96 + t];
    int* mine = out + blockIdx.x * 6 + warp * 2;
    if (warp == 2) {
        if (lane < 2)
            mine[lane] = -1;
        return;
    }
    if (lane < 16) {
        for (int o = 8; o > 0; o >>= 1)
            v += __shfl_down_sync(0x0000ffffu, v, o, 16);
        if (lane == 0)
            s[warp * 2] = mine[0] = v;
        __syncwarp(0x0000ffffu);
    } else {
        for (int o = 8; o > 0; o >>= 1)
            v = max(v, __shfl_xor_sync(0xffff0000u, v, o));
        if (lane == 16)
            s[warp * 2 + 1] = mine[1] = v;
    }
    asm volatile("bar.sync 1, 64;" ::: "memory");
    if (t == 0)
        both[blockIdx.x] = s[0] + s[1] + s[2] + s[3];
}
