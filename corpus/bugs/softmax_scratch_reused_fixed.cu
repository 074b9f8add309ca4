// Row softmax with one scratch array for the maximum and the sum, with a barrier between the two uses.
// warpsmith: --arch sm_80 --kernel softmax --grid 3 --block 128 --shared 0
// warpsmith: --arg x=f32[3,128]=normal(3) --arg y=out,f32[3,128]

extern "C" __global__ void softmax(const float* x, float* y)
{
    __shared__ float scratch[4];
    const int t = threadIdx.x, warp = t / 32, i = blockIdx.x * 128 + t;
    const float v = x[i];

    float m = v;
    for (int o = 16; o > 0; o >>= 1)
        m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, o));
    if (t % 32 == 0)
        scratch[warp] = m;
    __syncthreads();
    m = fmaxf(fmaxf(scratch[0], scratch[1]), fmaxf(scratch[2], scratch[3]));
    __syncthreads();

    const float e = __expf(v - m);
    float s = e;
    for (int o = 16; o > 0; o >>= 1)
        s += __shfl_xor_sync(0xffffffffu, s, o);
    if (t % 32 == 0)
        scratch[warp] = s;
    __syncthreads();
    s = scratch[0] + scratch[1] + scratch[2] + scratch[3];
    y[i] = e / s;
}
