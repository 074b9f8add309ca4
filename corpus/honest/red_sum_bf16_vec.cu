#include <cuda_bf16.h>
// warpsmith: reference = "ref.py:total"
// warpsmith: sizes = { n = { default = 4096, multiple_of = 8 } }
// warpsmith: deterministic = false
// warpsmith: tolerance = { reduction = "n" }
// warpsmith: launch = { grid = [2], block = [256] }
// warpsmith: [arguments]
// warpsmith: x = "in bf16[n]"
// warpsmith: y = "out fp32[1] = 0"
// warpsmith: n = "size"
__global__ void red_sum_bf16_vec(const __nv_bfloat16* __restrict__ x, float* y, int n) {
    float acc = 0.f;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n / 8; i += 512) {
        uint4 v = reinterpret_cast<const uint4*>(x)[i];
        const __nv_bfloat162* p = reinterpret_cast<const __nv_bfloat162*>(&v);
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            float2 f = __bfloat1622float2(p[k]);
            acc += f.x;
            acc += f.y;
        }
    }
    __shared__ float total;
    if (threadIdx.x == 0) total = 0.f;
    __syncthreads();
    atomicAdd(&total, acc);
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(y, total);
}
