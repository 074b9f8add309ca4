#include <cuda_fp16.h>
// warpsmith: reference = "ref.py:softmax"
// warpsmith: sizes = { rows = 6, cols = { default = 256, multiple_of = 2 } }
// warpsmith: independent = "rows"
// warpsmith: tolerance = { reduction = "cols" }
// warpsmith: launch = { grid = ["rows"], block = [64] }
// warpsmith: [arguments]
// warpsmith: x = "in fp16[rows, cols]"
// warpsmith: y = "out fp16[rows, cols]"
// warpsmith: cols = "size"
__device__ float block_max(float v, float* s) {
    for (int o = 16; o; o >>= 1) v = fmaxf(v, __shfl_xor_sync(~0u, v, o));
    if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = v;
    __syncthreads();
    return fmaxf(s[0], s[1]);
}
__device__ float block_sum(float v, float* s) {
    for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
    if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = v;
    __syncthreads();
    return s[0] + s[1];
}
__global__ void sm_half2(const __half* x, __half* y, int cols) {
    __shared__ float a[2], b[2];
    const __half2* row = reinterpret_cast<const __half2*>(x + blockIdx.x * cols);
    __half2* out = reinterpret_cast<__half2*>(y + blockIdx.x * cols);
    float m = -INFINITY, sum = 0.f;
    for (int i = threadIdx.x; i < cols / 2; i += 64) {
        float2 v = __half22float2(row[i]);
        m = fmaxf(m, fmaxf(v.x, v.y));
    }
    m = block_max(m, a);
    for (int i = threadIdx.x; i < cols / 2; i += 64) {
        float2 v = __half22float2(row[i]);
        sum += __expf(v.x - m) + __expf(v.y - m);
    }
    float inv = 1.f / block_sum(sum, b);
    for (int i = threadIdx.x; i < cols / 2; i += 64) {
        float2 v = __half22float2(row[i]);
        out[i] = __floats2half2_rn(__expf(v.x - m) * inv, __expf(v.y - m) * inv);
    }
}
