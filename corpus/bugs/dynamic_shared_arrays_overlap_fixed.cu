// Two arrays in dynamic shared memory. The second starts after the first.
// warpsmith: --arch sm_80 --kernel combine --grid 2 --block 64 --shared 512
// warpsmith: --arg x=f32[128]=normal(1) --arg y=out,f32[128]

extern "C" __global__ void combine(const float* x, float* y)
{
    extern __shared__ float shared[];
    float* a = shared;
    float* b = shared + 64;
    const int t = threadIdx.x, i = blockIdx.x * 64 + t;
    a[t] = x[i];
    b[t] = 2.0f * x[i];
    __syncthreads();
    y[i] = a[63 - t] + b[t];
}
