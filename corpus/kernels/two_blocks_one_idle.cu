// A grid that was rounded up from one block to two: the second block has no work. A note, not a finding.
// Expected: y = a x + y for 64 elements.
// warpsmith: --arch sm_80 --kernel saxpy --grid 2 --block 64 --shared 0
// warpsmith: --arg x=f32[64]=normal(2) --arg y=inout,f32[64]=normal(3) --arg a=f32=0.5 --arg n=i32=64

extern "C" __global__ void saxpy(const float* x, float* y, float a, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] += a * x[i];
}
