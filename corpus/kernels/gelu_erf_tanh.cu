// GELU in two forms: the exact form by erff and the tanh approximation.
// Expected: exact = x/2 (1 + erf(x/sqrt 2)); approx = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
// warpsmith: --arch sm_80 --kernel gelu --grid 5 --block 96 --shared 0
// warpsmith: --arg x=f32[450]=normal(4) --arg exact=out,f32[450] --arg approx=out,f32[450] --arg n=i32=450

extern "C" __global__ void gelu(const float* x, float* exact, float* approx, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const float v = x[i];
        exact[i] = 0.5f * v * (1.0f + erff(v * 0.70710678118654752f));
        const float inner = 0.79788456080286536f * (v + 0.044715f * v * v * v);
        approx[i] = 0.5f * v * (1.0f + tanhf(inner));
    }
}
