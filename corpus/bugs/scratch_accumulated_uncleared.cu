// Split-K partial results are accumulated into a global workspace that was never cleared.
// warpsmith: --arch sm_80 --kernel split_k --grid 2 --block 64 --shared 0
// warpsmith: --arg a=f32[128,12]=normal(3) --arg b=f32[12]=normal(4) --arg work=scratch,f32[128] --arg y=out,f32[128]
// warpsmith: --arg splits=i32=3

extern "C" __global__ void split_k(const float* a, const float* b, float* work, float* y, int splits)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    for (int s = 0; s < splits; ++s) {
        float part = 0.0f;
        for (int k = s * 4; k < s * 4 + 4; ++k)
            part += a[row * 12 + k] * b[k];
        work[row] += part; //~ uninitialised
    }
    y[row] = work[row]; //~| uninitialised
}
