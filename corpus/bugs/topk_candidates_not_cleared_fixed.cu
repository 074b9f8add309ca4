// Top-2 per block: every warp leaves two candidates in shared memory, the last warp the smallest float.
// warpsmith: --arch sm_80 --kernel top2 --grid 1 --block 128 --shared 0
// warpsmith: --arg x=f32[96]=normal(3) --arg best=out,f32[2] --arg n=i32=96

extern "C" __global__ void top2(const float* x, float* best, int n)
{
    __shared__ float candidates[4][2];
    const int t = threadIdx.x, lane = t % 32;
    {
        float v = t < n ? x[t] : -3.0e38f;
        for (int round = 0; round < 2; ++round) {
            float top = v;
            for (int o = 16; o > 0; o >>= 1)
                top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, o));
            if (lane == 0)
                candidates[t / 32][round] = top;
            if (v == top)
                v = -3.0e38f;
        }
    }
    __syncthreads();
    if (t == 0) {
        float one = -3.0e38f, two = -3.0e38f;
        for (int i = 0; i < 8; ++i) {
            const float v = candidates[i / 2][i % 2];
            if (v > one) {
                two = one;
                one = v;
            } else if (v > two) {
                two = v;
            }
        }
        best[0] = one;
        best[1] = two;
    }
}
