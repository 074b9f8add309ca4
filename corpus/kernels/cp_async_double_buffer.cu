// Tiled f32 product with cp.async double buffering and one barrier per iteration.
// Expected: C = A B within f32 rounding.
// warpsmith: --arch sm_80 --kernel gemm_async --grid 2,2 --block 16,16 --shared 0
// warpsmith: --arg A=f32[32,80]=normal(156) --arg B=f32[80,32]=normal(157) --arg C=out,f32[32,32] --arg K=i32=80

#include <cuda_pipeline_primitives.h>

extern "C" __global__ void gemm_async(const float* A, const float* B, float* C, int K)
{
    constexpr int N = 32;
    __shared__ float As[2][16][16], Bs[2][16][16];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    auto fetch = [&](int stage, int k0) {
        __pipeline_memcpy_async(&As[stage][ty][tx], &A[row * K + k0 + tx], 4);
        __pipeline_memcpy_async(&Bs[stage][ty][tx], &B[(k0 + ty) * N + col], 4);
        __pipeline_commit();
    };
    fetch(0, 0);
    float acc = 0.0f;
    for (int k0 = 0; k0 < K; k0 += 16) {
        const int stage = (k0 / 16) & 1;
        __pipeline_wait_prior(0);
        __syncthreads(); // this tile is visible to all threads, and no thread reads the other stage
        if (k0 + 16 < K)
            fetch(stage ^ 1, k0 + 16);
        for (int k = 0; k < 16; ++k)
            acc += As[stage][ty][k] * Bs[stage][k][tx];
    }
    C[row * N + col] = acc;
}
