// A 9-tap filter over a constant table of 9 weights.
// warpsmith: --arch sm_80 --kernel fir --grid 2 --block 64 --shared 0
// warpsmith: --arg in=f32[136]=normal(3) --arg out=out,f32[128] --arg taps=i32=9

__constant__ float weights[9] = {0.02f, 0.05f, 0.12f, 0.2f, 0.22f, 0.2f, 0.12f, 0.05f, 0.02f};

extern "C" __global__ void fir(const float* in, float* out, int taps)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < taps; ++k)
        sum += weights[k] * in[i + k];
    out[i] = sum;
}
