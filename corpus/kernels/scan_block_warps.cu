// Inclusive prefix sum over a block: shuffle scan inside each warp, then a scan of the warp totals.
// Expected: out[i] = in[0] + ... + in[i] within each block's 256 elements (int, exact).
// warpsmith: --arch sm_80 --kernel scan --grid 3 --block 256 --shared 0
// warpsmith: --arg in=i32[700]=randint(2,-50,50) --arg out=out,i32[700] --arg n=i32=700

extern "C" __global__ void scan(const int* in, int* out, int n)
{
    __shared__ int totals[8];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;

    int v = i < n ? in[i] : 0;
    for (int d = 1; d < 32; d <<= 1) {
        const int below = __shfl_up_sync(0xffffffff, v, d);
        if (lane >= d)
            v += below;
    }
    if (lane == 31)
        totals[warp] = v;
    __syncthreads();

    if (warp == 0) {
        int t = lane < 8 ? totals[lane] : 0;
        for (int d = 1; d < 8; d <<= 1) {
            const int below = __shfl_up_sync(0xffffffff, t, d, 8);
            if ((lane & 7) >= d)
                t += below;
        }
        if (lane < 8)
            totals[lane] = t;
    }
    __syncthreads();

    if (warp > 0)
        v += totals[warp - 1];
    if (i < n)
        out[i] = v;
}
