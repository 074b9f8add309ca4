// A grid of two dimensions; the index of the output includes blockIdx.y.
// warpsmith: --arch sm_80 --kernel double_rows --grid 2,3 --block 32 --shared 0
// warpsmith: --arg x=f32[3,64]=normal(1) --arg y=inout,f32[3,64]=zeros

extern "C" __global__ void double_rows(const float* x, float* y)
{
    const int c = blockIdx.x * 32 + threadIdx.x;
    y[blockIdx.y * 64 + c] = x[blockIdx.y * 64 + c] * 2.0f;
}
