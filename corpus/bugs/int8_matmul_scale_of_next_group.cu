// Weights of 8 bits with one scale per 32 columns. The group index is rounded up, so the last columns read a scale past
// the end.
// warpsmith: --arch sm_80 --kernel matvec_q8 --grid 1 --block 32 --shared 0
// warpsmith: --arg w=i8[32,96]=randint(1,-127,128) --arg scales=f32[32,3]=uniform(2) --arg x=f32[96]=normal(3) --arg y=out,f32[32]

extern "C" __global__ void matvec_q8(const signed char* w, const float* scales, const float* x, float* y)
{
    const int row = threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < 96; ++k)
        sum += w[row * 96 + k] * scales[row * 3 + (k + 31) / 32] * x[k]; //~ out-of-bounds
    y[row] = sum;
}
