#include <cuda_bf16.h>
// warpsmith: reference = "ref.py:rmsnorm"
// warpsmith: sizes = { rows = 9, cols = { default = 160, max = 1024 } }
// warpsmith: independent = "rows"
// warpsmith: tolerance = { reduction = "cols" }
// warpsmith: launch = { grid = ["rows"], block = [32, 2] }
// warpsmith: [arguments]
// warpsmith: x = "inout bf16[rows, cols]"
// warpsmith: w = "in fp32[cols]"
// warpsmith: eps = "scalar fp32 = 1e-6"
// warpsmith: cols = "size"
__global__ void ln_rms_inplace(__nv_bfloat16* x, const float* w, float eps, int cols) {
    __shared__ float part[2];
    int t = threadIdx.y * 32 + threadIdx.x;
    x += blockIdx.x * cols;
    float q = 0;
    for (int i = t; i < cols; i += 64) {
        float v = __bfloat162float(x[i]);
        q = fmaf(v, v, q);
    }
    for (int o = 16; o; o >>= 1) q += __shfl_xor_sync(~0u, q, o);
    if (threadIdx.x == 0) part[threadIdx.y] = q;
    __syncthreads();
    float inv = rsqrtf((part[0] + part[1]) / cols + eps);
    for (int i = t; i < cols; i += 64) x[i] = __float2bfloat16(__bfloat162float(x[i]) * inv * w[i]);
}
