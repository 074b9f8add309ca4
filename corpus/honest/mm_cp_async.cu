#include <cuda_pipeline.h>
// warpsmith: reference = "ref.py:matmul"
// warpsmith: sizes = { m = { default = 32, multiple_of = 16 }, n = { default = 32, multiple_of = 16 }, k = { default = 64, multiple_of = 16 } }
// warpsmith: tolerance = { reduction = "k" }
// warpsmith: work = { flops = "2 * m * n * k" }
// warpsmith: launch = { grid = ["n / 16", "m / 16"], block = [16, 16] }
// warpsmith: [arguments]
// warpsmith: a = "in fp32[m, k]"
// warpsmith: b = "in fp32[k, n]"
// warpsmith: c = "out fp32[m, n]"
// warpsmith: n = "size"
// warpsmith: k = "size"
__global__ void mm_cp_async(const float* a, const float* b, float* c, int n, int k) {
    __shared__ float sa[2][16][16], sb[2][16][16];
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    auto load = [&](int stage, int k0) {
        __pipeline_memcpy_async(&sa[stage][ty][tx], &a[row * k + k0 + tx], 4);
        __pipeline_memcpy_async(&sb[stage][ty][tx], &b[(k0 + ty) * n + col], 4);
        __pipeline_commit();
    };
    load(0, 0);
    float acc = 0.f;
    for (int k0 = 0, stage = 0; k0 < k; k0 += 16, stage ^= 1) {
        if (k0 + 16 < k) {
            load(stage ^ 1, k0 + 16);
            __pipeline_wait_prior(1);
        } else {
            __pipeline_wait_prior(0);
        }
        __syncthreads();
        for (int i = 0; i < 16; ++i) acc += sa[stage][ty][i] * sb[stage][i][tx];
        __syncthreads();
    }
    c[row * n + col] = acc;
}
