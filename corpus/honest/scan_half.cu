#include <cuda_fp16.h>
// warpsmith: reference = "ref.py:cumsum"
// warpsmith: sizes = { rows = 5, cols = 100 }
// warpsmith: independent = "rows"
// warpsmith: tolerance = { reduction = "cols" }
// warpsmith: launch = { grid = ["rows"], block = [32] }
// warpsmith: [arguments]
// warpsmith: x = "in fp16[rows, cols]"
// warpsmith: y = "out fp16[rows, cols]"
// warpsmith: cols = "size"
__global__ void scan_half(const __half* x, __half* y, int cols) {
    float carry = 0.f;
    for (int base = 0; base < cols; base += 32) {
        int i = base + threadIdx.x;
        float v = i < cols ? __half2float(x[blockIdx.x * cols + i]) : 0.f;
        for (int d = 1; d < 32; d *= 2) {
            float u = __shfl_up_sync(~0u, v, d);
            if (threadIdx.x >= d) v += u;
        }
        v += carry;
        if (i < cols) y[blockIdx.x * cols + i] = __float2half(v);
        carry = __shfl_sync(~0u, v, 31);
    }
}
