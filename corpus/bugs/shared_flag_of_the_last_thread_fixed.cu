// A block decides whether its tile is complete with a barrier that combines the comparisons of all threads.
// warpsmith: --arch sm_80 --kernel scale_tiles --grid 3 --block 64 --shared 0
// warpsmith: --arg x=f32[192]=normal(4) --arg y=out,f32[192] --arg n=i32=150

extern "C" __global__ void scale_tiles(const float* x, float* y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const bool complete = __syncthreads_and(i < n);
    if (complete)
        y[i] = 2.0f * x[i];
    else
        y[i] = i < n ? 2.0f * x[i] : 0.0f;
}
