// One element per thread, with the grid capped at four blocks as for a grid-stride loop. The loop is missing, so the
// last part of the output is never written.
// warpsmith: --arch sm_80 --kernel relu --grid 4 --block 64 --shared 0
// warpsmith: --arg x=f32[1000]=normal(3) --arg y=out,f32[1000] --arg n=i32=1000

extern "C" __global__ void relu(const float* x, float* y, int n) //~ unwritten-output
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = fmaxf(x[i], 0.0f);
}
