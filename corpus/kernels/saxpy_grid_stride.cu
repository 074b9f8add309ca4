// y = a*x + y with a grid-stride loop: the grid covers an eighth of the vector.
// Expected: y[i] = fma(a, x[i], y[i]), exactly, for every i < n.
// warpsmith: --arch sm_80 --kernel saxpy --grid 4 --block 128 --shared 0
// warpsmith: --arg n=i32=4099 --arg a=f32=2.5 --arg x=f32[4099]=normal(1) --arg y=inout,f32[4099]=normal(2)

extern "C" __global__ void saxpy(int n, float a, const float* __restrict__ x, float* __restrict__ y)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] = fmaf(a, x[i], y[i]);
}
