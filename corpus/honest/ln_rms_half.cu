#include <cuda_fp16.h>
// warpsmith: reference = "ref.py:rmsnorm"
// warpsmith: sizes = { rows = 6, cols = 384 }
// warpsmith: independent = "rows"
// warpsmith: tolerance = { reduction = "cols" }
// warpsmith: launch = { grid = ["rows"], block = [128] }
// warpsmith: [arguments]
// warpsmith: x = "in fp16[rows, cols]"
// warpsmith: w = "in fp16[cols]"
// warpsmith: y = "out fp16[rows, cols]"
// warpsmith: eps = "scalar fp32 = 1e-5"
// warpsmith: cols = "size"
__global__ void ln_rms_half(const __half* x, const __half* w, __half* y, float eps, int cols) {
    __shared__ float total;
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    float q = 0;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) {
        float v = __half2float(x[blockIdx.x * cols + i]);
        q += v * v;
    }
    for (int o = 16; o; o >>= 1) q += __shfl_down_sync(~0u, q, o);
    __shared__ float part[4];
    if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = q;
    __syncthreads();
    if (threadIdx.x == 0) total = part[0] + part[1] + part[2] + part[3];
    __syncthreads();
    float inv = rsqrtf(total / cols + eps);
    for (int i = threadIdx.x; i < cols; i += blockDim.x) {
        int at = blockIdx.x * cols + i;
        y[at] = __hmul(__float2half(__half2float(x[at]) * inv), w[i]);
    }
}
