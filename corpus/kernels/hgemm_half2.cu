// f16 product with __hfma2: two columns per thread, shared tiles of half2, f16 accumulation.
// Expected: C = A B within f16 accumulation over 32 products.
// warpsmith: --arch sm_80 --kernel hgemm --grid 2,2 --block 8,16 --shared 0
// warpsmith: --arg A=f16[32,32]=uniform(81) --arg B=f16[32,32]=uniform(82) --arg C=out,f16[32,32]

#include <cuda_fp16.h>

extern "C" __global__ void hgemm(const __half* A, const __half2* B, __half2* C)
{
    __shared__ __half As[16][16];
    __shared__ __half2 Bs[16][8];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = blockIdx.y * 16 + ty, pair = blockIdx.x * 8 + tx;
    __half2 acc = __float2half2_rn(0.0f);
    for (int k0 = 0; k0 < 32; k0 += 16) {
        As[ty][tx] = A[row * 32 + k0 + tx];
        As[ty][tx + 8] = A[row * 32 + k0 + tx + 8];
        Bs[ty][tx] = B[(k0 + ty) * 16 + pair];
        __syncthreads();
        for (int k = 0; k < 16; ++k)
            acc = __hfma2(__half2half2(As[ty][k]), Bs[k][tx], acc);
        __syncthreads();
    }
    C[row * 16 + pair] = acc;
}
