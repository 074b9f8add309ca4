#include <cuda_fp16.h>
// warpsmith: reference = "ref.py:total"
// warpsmith: sizes = { n = 4097 }
// warpsmith: deterministic = false
// warpsmith: tolerance = { reduction = "n" }
// warpsmith: launch = { grid = [3], block = [192] }
// warpsmith: [arguments]
// warpsmith: x = "in fp16[n]"
// warpsmith: y = "out fp32[1] = 0"
// warpsmith: n = "size"
__global__ void red_sum_half2(const __half* x, float* y, int n) {
    const __half2* x2 = reinterpret_cast<const __half2*>(x);
    float acc = 0.f;
    int stride = gridDim.x * blockDim.x, first = blockIdx.x * blockDim.x + threadIdx.x;
    for (int i = first; i < n / 2; i += stride) {
        float2 f = __half22float2(x2[i]);
        acc += f.x + f.y;
    }
    if (first == 0 && (n & 1)) acc += __half2float(x[n - 1]);
    for (int o = 16; o; o >>= 1) acc += __shfl_xor_sync(0xffffffffu, acc, o);
    __shared__ float part[6];
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = acc;
    __syncthreads();
    if (threadIdx.x == 0) {
        float t = 0;
        for (int w = 0; w < 6; ++w) t += part[w];
        atomicAdd(y, t);
    }
}
