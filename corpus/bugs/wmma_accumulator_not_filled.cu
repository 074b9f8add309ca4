// WMMA product whose accumulator fragment is never filled: the first mma adds to uninitialised registers.
// warpsmith: --arch sm_80 --kernel wmma_tile --grid 2 --block 32 --shared 0
// warpsmith: --arg A=f16[32,32]=normal(3) --arg B=f16[32,16]=normal(4) --arg C=out,f32[32,16] --arg K=i32=32

#include <mma.h>
using namespace nvcuda;

extern "C" __global__ void wmma_tile(const __half* A, const __half* B, float* C, int K)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    const __half* rows = A + blockIdx.x * 16 * K;
    for (int k = 0; k < K; k += 16) {
        wmma::load_matrix_sync(a, rows + k, K);
        wmma::load_matrix_sync(b, B + k * 16, 16);
        wmma::mma_sync(c, a, b, c); //~ uninitialised
    }
    wmma::store_matrix_sync(C + blockIdx.x * 256, c, 16, wmma::mem_row_major); //~| uninitialised
}
