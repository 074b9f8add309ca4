#include <cuda_bf16.h>
// warpsmith: reference = "ref.py:layernorm"
// warpsmith: sizes = { rows = 4, cols = 500 }
// warpsmith: independent = "rows"
// warpsmith: tolerance = { reduction = "cols" }
// warpsmith: launch = { grid = ["rows"], block = [256] }
// warpsmith: [arguments]
// warpsmith: x = "in bf16[rows, cols]"
// warpsmith: w = "in bf16[cols]"
// warpsmith: b = "in bf16[cols]"
// warpsmith: y = "out bf16[rows, cols]"
// warpsmith: eps = "scalar fp32 = 1e-5"
// warpsmith: cols = "size"
typedef __nv_bfloat16 bf16;
__global__ void ln_bf16(const bf16* x, const bf16* w, const bf16* b, bf16* y, float eps, int cols) {
    __shared__ float s[256];
    __shared__ float mean, inv;
    int t = threadIdx.x;
    const bf16* row = x + blockIdx.x * cols;
    float v = 0;
    for (int i = t; i < cols; i += 256) v += __bfloat162float(row[i]);
    s[t] = v;
    for (int k = 128; k; k >>= 1) {
        __syncthreads();
        if (t < k) s[t] += s[t + k];
    }
    if (t == 0) mean = s[0] / cols;
    __syncthreads();
    v = 0;
    for (int i = t; i < cols; i += 256) {
        float d = __bfloat162float(row[i]) - mean;
        v += d * d;
    }
    s[t] = v;
    for (int k = 128; k; k >>= 1) {
        __syncthreads();
        if (t < k) s[t] += s[t + k];
    }
    if (t == 0) inv = rsqrtf(s[0] / cols + eps);
    __syncthreads();
    for (int i = t; i < cols; i += 256)
        y[blockIdx.x * cols + i] = __float2bfloat16((__bfloat162float(row[i]) - mean) * inv * __bfloat162float(w[i]) + __bfloat162float(b[i]));
}
