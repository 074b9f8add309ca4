#include <cuda_fp16.h>
// warpsmith: reference = "ref.py:layernorm"
// warpsmith: sizes = { rows = 8, cols = { default = 256, multiple_of = 2 } }
// warpsmith: independent = "rows"
// warpsmith: tolerance = { reduction = "cols" }
// warpsmith: launch = { grid = ["rows"], block = [64] }
// warpsmith: [arguments]
// warpsmith: x = "in fp16[rows, cols]"
// warpsmith: w = "in fp16[cols]"
// warpsmith: b = "in fp16[cols]"
// warpsmith: y = "out fp16[rows, cols]"
// warpsmith: eps = "scalar fp32 = 1e-5"
// warpsmith: cols = "size"
__global__ void ln_half(const __half* x, const __half* w, const __half* b, __half* y, float eps, int cols) {
    __shared__ float2 s[2];
    const __half2* row = (const __half2*)(x + blockIdx.x * cols);
    int n = cols / 2;
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += 64) {
        float2 v = __half22float2(row[i]);
        sum += v.x + v.y;
    }
    for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
    if (threadIdx.x % 32 == 0) s[threadIdx.x / 32].x = sum;
    __syncthreads();
    float mean = (s[0].x + s[1].x) / cols, q = 0;
    for (int i = threadIdx.x; i < n; i += 64) {
        float2 v = __half22float2(row[i]);
        q += (v.x - mean) * (v.x - mean) + (v.y - mean) * (v.y - mean);
    }
    for (int o = 16; o; o >>= 1) q += __shfl_xor_sync(~0u, q, o);
    if (threadIdx.x % 32 == 0) s[threadIdx.x / 32].y = q;
    __syncthreads();
    float inv = rsqrtf((s[0].y + s[1].y) / cols + eps);
    for (int i = threadIdx.x; i < n; i += 64) {
        float2 v = __half22float2(row[i]), g = __half22float2(((const __half2*)w)[i]), h = __half22float2(((const __half2*)b)[i]);
        ((__half2*)(y + blockIdx.x * cols))[i] = __floats2half2_rn((v.x - mean) * inv * g.x + h.x, (v.y - mean) * inv * g.y + h.y);
    }
}
