// Softmax by one block per row: every warp stores the maximum and sum of its elements, and after a barrier all threads
// combine them.
// warpsmith: --arch sm_80 --kernel softmax --grid 3 --block 128 --shared 0
// warpsmith: --arg x=f32[3,128]=normal(3) --arg y=out,f32[3,128]

struct Share { float maximum, sum; };

__device__ Share share_of(float v)
{
    float m = v;
    for (int o = 16; o > 0; o /= 2)
        m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, o));
    float s = __expf(v - m);
    for (int o = 16; o > 0; o /= 2)
        s += __shfl_xor_sync(0xffffffffu, s, o);
    return {m, s};
}

extern "C" __global__ void softmax(const float* x, float* y)
{
    __shared__ Share shares[4];
    const int t = threadIdx.x, i = blockIdx.x * 128 + t;
    const float v = x[i];
    const Share mine = share_of(v);
    if (t % 32 == 0)
        shares[t / 32] = mine;
    __syncthreads();
    float m = shares[0].maximum, s = 0.0f;
    for (int warp = 1; warp < 4; ++warp)
        m = fmaxf(m, shares[warp].maximum);
    for (int warp = 0; warp < 4; ++warp)
        s += shares[warp].sum * __expf(shares[warp].maximum - m);
    y[i] = __expf(v - m) / s;
}
