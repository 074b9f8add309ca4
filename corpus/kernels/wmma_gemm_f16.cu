// WMMA product, f16 inputs and f32 accumulators, 16x16x16 tiles directly from global memory.
// Four warps per block, each with a 16x16 tile of C; B is column major.
// Expected: C[m][n] = sum_k A[m][k] Bt[n][k], within f32 accumulation.
// warpsmith: --arch sm_80 --kernel wmma_gemm --grid 2,1 --block 128 --shared 0
// warpsmith: --arg A=f16[64,48]=normal(41) --arg Bt=f16[32,48]=normal(42) --arg C=out,f32[64,32]
// warpsmith: --arg M=i32=64 --arg N=i32=32 --arg K=i32=48

#include <mma.h>
using namespace nvcuda;

extern "C" __global__ void wmma_gemm(const __half* A, const __half* Bt, float* C, int M, int N, int K)
{
    const int warp = threadIdx.x / 32;
    const int row = warp * 16, col = blockIdx.x * 16;
    if (row >= M || col >= N)
        return;

    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::fill_fragment(c, 0.0f);
    for (int k = 0; k < K; k += 16) {
        wmma::load_matrix_sync(a, A + row * K + k, K);
        wmma::load_matrix_sync(b, Bt + col * K + k, K);
        wmma::mma_sync(c, a, b, c);
    }
    wmma::store_matrix_sync(C + row * N + col, c, N, wmma::mem_row_major);
}
