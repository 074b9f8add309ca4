// bf16 in and out, f32 inside: tiled product with conversions on load and store, and a bias row.
// Expected: C = bf16(A B + bias), one bf16 rounding away from the exact sum at most.
// warpsmith: --arch sm_80 --kernel bgemm --grid 2,3 --block 16,16 --shared 0
// warpsmith: --arg A=bf16[40,20]=normal(83) --arg B=bf16[20,30]=normal(84) --arg bias=f32[30]=normal(85)
// warpsmith: --arg C=out,bf16[40,30]

#include <cuda_bf16.h>

extern "C" __global__ void bgemm(const __nv_bfloat16* A, const __nv_bfloat16* B, const float* bias, __nv_bfloat16* C)
{
    constexpr int M = 40, N = 30, K = 20;
    __shared__ float As[16][17], Bs[16][17];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    float acc = col < N ? bias[col] : 0.0f;
    for (int k0 = 0; k0 < K; k0 += 16) {
        As[ty][tx] = row < M && k0 + tx < K ? __bfloat162float(A[row * K + k0 + tx]) : 0.0f;
        Bs[ty][tx] = col < N && k0 + ty < K ? __bfloat162float(B[(k0 + ty) * N + col]) : 0.0f;
        __syncthreads();
        for (int k = 0; k < 16; ++k)
            acc = fmaf(As[ty][k], Bs[k][tx], acc);
        __syncthreads();
    }
    if (row < M && col < N)
        C[row * N + col] = __float2bfloat16(acc);
}
