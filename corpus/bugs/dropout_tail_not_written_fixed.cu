// Dropout over vectors of four elements; the first threads also handle the last elements one by one.
// warpsmith: --arch sm_80 --kernel dropout --grid 1 --block 64 --shared 0
// warpsmith: --arg x=f32[203]=normal(2) --arg keep=f32[203]=uniform(4) --arg y=out,f32[203] --arg n=i32=203

extern "C" __global__ void dropout(const float* x, const float* keep, float* y, int n)
{
    const int t = threadIdx.x;
    if (t < n / 4)
        for (int i = 4 * t; i < 4 * t + 4; ++i)
            y[i] = keep[i] < 0.8f ? x[i] * 1.25f : 0.0f;
    const int tail = n / 4 * 4 + t;
    if (tail < n)
        y[tail] = keep[tail] < 0.8f ? x[tail] * 1.25f : 0.0f;
}
