// WMMA in bf16 through shared memory, A row major and B row major, two warps per block.
// Expected: C = A B within f32 accumulation.
// warpsmith: --arch sm_80 --kernel wmma_bf16 --grid 2 --block 64 --shared 0
// warpsmith: --arg A=bf16[32,48]=normal(91) --arg B=bf16[48,32]=normal(92) --arg C=out,f32[32,32]

#include <mma.h>
using namespace nvcuda;

extern "C" __global__ void wmma_bf16(const __nv_bfloat16* A, const __nv_bfloat16* B, float* C)
{
    __shared__ __nv_bfloat16 As[32][24], Bs[16][24];
    const int t = threadIdx.x, warp = t / 32, col = blockIdx.x * 16;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::fill_fragment(c, 0.0f);
    for (int k0 = 0; k0 < 48; k0 += 16) {
        for (int i = t; i < 32 * 16; i += 64)
            As[i / 16][i % 16] = A[i / 16 * 48 + k0 + i % 16];
        for (int i = t; i < 16 * 16; i += 64)
            Bs[i / 16][i % 16] = B[(k0 + i / 16) * 32 + col + i % 16];
        __syncthreads();
        wmma::load_matrix_sync(a, &As[warp * 16][0], 24);
        wmma::load_matrix_sync(b, &Bs[0][0], 24);
        wmma::mma_sync(c, a, b, c);
        __syncthreads();
    }
    wmma::store_matrix_sync(C + warp * 16 * 32 + col, c, 32, wmma::mem_row_major);
}
