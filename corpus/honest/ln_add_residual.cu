#include <cuda_fp16.h>
// warpsmith: reference = "ref.py:add_layernorm"
// warpsmith: sizes = { rows = 5, cols = { default = 300, max = 512 } }
// warpsmith: independent = "rows"
// warpsmith: tolerance = { reduction = "cols" }
// warpsmith: launch = { grid = ["rows"], block = [128] }
// warpsmith: [arguments]
// warpsmith: x = "in fp16[rows, cols]"
// warpsmith: residual = "inout fp32[rows, cols]"
// warpsmith: w = "in fp16[cols]"
// warpsmith: y = "out fp16[rows, cols]"
// warpsmith: eps = "scalar fp32 = 1e-5"
// warpsmith: cols = "size"
__global__ void ln_add_residual(const __half* x, float* residual, const __half* w, __half* y, float eps, int cols) {
    __shared__ float row[512], s[128];
    int t = threadIdx.x, base = blockIdx.x * cols;
    float sum = 0;
    for (int i = t; i < cols; i += 128) {
        float v = __half2float(x[base + i]) + residual[base + i];
        residual[base + i] = row[i] = v;
        sum += v;
    }
    s[t] = sum;
    for (int k = 64; k > 0; k >>= 1) {
        __syncthreads();
        if (t < k) s[t] += s[t + k];
    }
    __syncthreads();
    float mean = s[0] / cols;
    __syncthreads();
    float q = 0;
    for (int i = t; i < cols; i += 128) q += (row[i] - mean) * (row[i] - mean);
    s[t] = q;
    for (int k = 64; k > 0; k >>= 1) {
        __syncthreads();
        if (t < k) s[t] += s[t + k];
    }
    __syncthreads();
    float inv = 1.f / sqrtf(s[0] / cols + eps);
    for (int i = t; i < cols; i += 128) y[base + i] = __float2half((row[i] - mean) * inv * __half2float(w[i]));
}
