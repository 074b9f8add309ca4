// The honest twin of beyond_steps rounds every number, those half-way between two to the even one.
// warpsmith: reference = "reference.py:steps"
// warpsmith: sizes = { n = 4000 }
// warpsmith: launch = { grid = ["ceil_div(n, 256)"], block = [256] }
// warpsmith: [arguments]
// warpsmith: x = "in fp16[n]"
// warpsmith: y = "out fp32[n]"
// warpsmith: n = "size"
#include <cuda_fp16.h>

extern "C" __global__ void round16(const __half* x, float* y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = rintf(16.0f * __half2float(x[i]));
}
