// The grid is capped at four blocks and a grid-stride loop covers the rest.
// warpsmith: --arch sm_80 --kernel relu --grid 4 --block 64 --shared 0
// warpsmith: --arg x=f32[1000]=normal(3) --arg y=out,f32[1000] --arg n=i32=1000

extern "C" __global__ void relu(const float* x, float* y, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] = fmaxf(x[i], 0.0f);
}
