// Softmax by one block per row. The four shares are combined by shuffles of four lanes, in a branch that the other lanes do
// not take, but with the mask of the whole warp.
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
    __shared__ Share shares[4], total[4];
    const int t = threadIdx.x, lane = t % 32, i = blockIdx.x * 128 + t;
    const float v = x[i];
    const Share mine = share_of(v);
    if (lane == 0)
        shares[t / 32] = mine;
    __syncthreads();
    if (lane < 4) {
        const Share own = shares[lane % 4];
        float m = own.maximum;
        for (int o = 2; o > 0; o /= 2)
            m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, o)); //~ warp-mask
        float s = own.sum * __expf(own.maximum - m);
        for (int o = 2; o > 0; o /= 2)
            s += __shfl_xor_sync(0xffffffffu, s, o); //~? warp-mask
        if (lane == 0)
            total[t / 32] = {m, s}; //~? uninitialised
    }
    __syncwarp();
    const Share all = total[t / 32];
    y[i] = __expf(v - all.maximum) / all.sum; //~? uninitialised
}
