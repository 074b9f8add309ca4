#include <cuda_bf16.h>
// warpsmith: reference = "ref.py:softmax"
// warpsmith: sizes = { rows = 3, cols = 401 }
// warpsmith: independent = "rows"
// warpsmith: tolerance = { reduction = "cols" }
// warpsmith: launch = { grid = ["rows"], block = [128] }
// warpsmith: [arguments]
// warpsmith: x = "in bf16[rows, cols]"
// warpsmith: y = "out bf16[rows, cols]"
// warpsmith: cols = "size"
__global__ void sm_bf16(const __nv_bfloat16* x, __nv_bfloat16* y, int cols) {
    __shared__ float red[4];
    x += (long long)blockIdx.x * cols;
    y += (long long)blockIdx.x * cols;
    float m = -1e30f;
    for (int i = threadIdx.x; i < cols; i += 128) m = max(m, __bfloat162float(x[i]));
    for (int o = 1; o < 32; o <<= 1) m = max(m, __shfl_xor_sync(~0u, m, o));
    if ((threadIdx.x & 31) == 0) red[threadIdx.x >> 5] = m;
    __syncthreads();
    m = max(max(red[0], red[1]), max(red[2], red[3]));
    __syncthreads();
    float s = 0.f;
    for (int i = threadIdx.x; i < cols; i += 128) s += expf(__bfloat162float(x[i]) - m);
    for (int o = 1; o < 32; o <<= 1) s += __shfl_xor_sync(~0u, s, o);
    if ((threadIdx.x & 31) == 0) red[threadIdx.x >> 5] = s;
    __syncthreads();
    s = red[0] + red[1] + red[2] + red[3];
    for (int i = threadIdx.x; i < cols; i += 128) y[i] = __float2bfloat16(expf(__bfloat162float(x[i]) - m) / s);
}
