// Residual add and RMS norm in one pass, one block per row; every thread stores the scale of the row (the same value).
// Expected: h = x + r, scale = 1 / sqrt(mean(h^2) + eps), y = h * scale * w.
// warpsmith: --arch sm_80 --kernel rmsnorm --grid 5 --block 64 --shared 0
// warpsmith: --arg x=f32[5,128]=normal(1) --arg r=f32[5,128]=normal(2) --arg w=f32[128]=normal(3) --arg y=out,f32[5,128] --arg scales=out,f32[5]

extern "C" __global__ void rmsnorm(const float* x, const float* r, const float* w, float* y, float* scales)
{
    __shared__ float part[2];
    const int t = threadIdx.x, row = blockIdx.x * 128;
    const float a = x[row + t] + r[row + t], b = x[row + t + 64] + r[row + t + 64];
    float squares = a * a + b * b;
    for (int o = 16; o > 0; o >>= 1)
        squares += __shfl_down_sync(0xffffffffu, squares, o);
    if (t % 32 == 0)
        part[t / 32] = squares;
    __syncthreads();
    const float scale = rsqrtf((part[0] + part[1]) / 128 + 1e-6f);
    scales[blockIdx.x] = scale;
    y[row + t] = a * scale * w[t];
    y[row + t + 64] = b * scale * w[t + 64];
}
