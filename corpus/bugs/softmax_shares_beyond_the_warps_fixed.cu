// Softmax by one block per row. Lanes without a share use an empty one.
// warpsmith: --arch sm_80 --kernel softmax --grid 3 --block 96 --shared 0
// warpsmith: --arg x=f32[3,96]=normal(3) --arg y=out,f32[3,96]

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
    __shared__ Share shares[32];
    const int t = threadIdx.x, lane = t % 32, i = blockIdx.x * 96 + t;
    const float v = x[i];
    const Share mine = share_of(v);
    if (lane == 0)
        shares[t / 32] = mine;
    __syncthreads();
    const Share nothing = {-1e30f, 0.0f};
    const Share own = lane < 3 ? shares[lane] : nothing;
    float m = own.maximum;
    for (int o = 16; o > 0; o /= 2)
        m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, o));
    float s = own.sum * __expf(own.maximum - m);
    for (int o = 16; o > 0; o /= 2)
        s += __shfl_xor_sync(0xffffffffu, s, o);
    y[i] = __expf(v - m) / s;
}
