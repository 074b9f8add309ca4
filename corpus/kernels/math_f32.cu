// Single precision functions as the CUDA library builds them, large arguments included (Payne-Hanek reduction).
// Expected: each column within a few units in the last place of the true value of the f32 argument.
// warpsmith: --arch sm_80 --kernel math_f32 --grid 2 --block 64 --shared 0
// warpsmith: --arg x=f32[128]=normal(143) --arg y=f32[128]=uniform(144) --arg out=out,f32[128,16]

extern "C" __global__ void math_f32(const float* x, const float* y, float* out)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float a = x[i], b = y[i] + 0.125f;
    float* o = out + i * 16;
    o[0] = sinf(1.0e6f * a);
    o[1] = cosf(a);
    o[2] = tanf(a);
    o[3] = powf(b, a);
    o[4] = expf(a);
    o[5] = logf(b);
    o[6] = exp2f(a);
    o[7] = log2f(b);
    o[8] = log1pf(b);
    o[9] = expm1f(a);
    o[10] = atanf(a);
    o[11] = asinf(b * 0.8f);
    o[12] = erfcf(a);
    o[13] = lgammaf(b + 1.0f);
    o[14] = sinhf(a);
    o[15] = fmodf(100.0f * a, b);
}
