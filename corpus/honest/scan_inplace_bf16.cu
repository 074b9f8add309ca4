#include <cuda_bf16.h>
// warpsmith: reference = "ref.py:cumsum_inplace"
// warpsmith: sizes = { rows = 4, cols = { default = 120, max = 128 } }
// warpsmith: independent = "rows"
// warpsmith: tolerance = { reduction = "cols" }
// warpsmith: launch = { grid = ["rows"], block = [128] }
// warpsmith: [arguments]
// warpsmith: x = "inout bf16[rows, cols]"
// warpsmith: cols = "size"
__global__ void scan_inplace_bf16(__nv_bfloat16* x, int cols) {
    __shared__ float s[128];
    int t = threadIdx.x;
    s[t] = t < cols ? __bfloat162float(x[blockIdx.x * cols + t]) : 0.f;
    __syncthreads();
    for (int d = 1; d < 128; d *= 2) {
        float add = t >= d ? s[t - d] : 0.f;
        __syncthreads();
        s[t] += add;
        __syncthreads();
    }
    if (t < cols) x[blockIdx.x * cols + t] = __float2bfloat16(s[t]);
}
