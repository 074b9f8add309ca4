// WMMA in double (m8n8k4), one warp per 8x8 tile, accumulated onto the contents of C.
// Expected: C = A B + C within f64 rounding.
// warpsmith: --arch sm_80 --kernel dgemm --grid 2,2 --block 32 --shared 0
// warpsmith: --arg A=f64[16,20]=normal(99) --arg B=f64[20,16]=normal(100) --arg C=inout,f64[16,16]=normal(101)

#include <mma.h>
using namespace nvcuda;

extern "C" __global__ void dgemm(const double* A, const double* B, double* C)
{
    wmma::fragment<wmma::matrix_a, 8, 8, 4, double, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 8, 8, 4, double, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 8, 8, 4, double> c;
    double* tile = C + blockIdx.y * 8 * 16 + blockIdx.x * 8;
    wmma::load_matrix_sync(c, tile, 16, wmma::mem_row_major);
    for (int k = 0; k < 20; k += 4) {
        wmma::load_matrix_sync(a, A + blockIdx.y * 8 * 20 + k, 20);
        wmma::load_matrix_sync(b, B + k * 16 + blockIdx.x * 8, 16);
        wmma::mma_sync(c, a, b, c);
    }
    wmma::store_matrix_sync(tile, c, 16, wmma::mem_row_major);
}
