// The block has 48 threads, so the second warp that executes the WMMA instructions has only 16 lanes.
// warpsmith: --arch sm_80 --kernel tiles --grid 1 --block 48 --shared 0
// warpsmith: --arg A=f16[32,16]=normal(3) --arg B=f16[16,16]=normal(4) --arg C=out,f32[32,16]

#include <mma.h>
using namespace nvcuda;

extern "C" __global__ void tiles(const __half* A, const __half* B, float* C)
{
    const int warp = threadIdx.x / 32;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::fill_fragment(c, 0.0f);
    wmma::load_matrix_sync(a, A + warp * 256, 16); //~ divergent-warp-op
    wmma::load_matrix_sync(b, B, 16); //~| divergent-warp-op
    wmma::mma_sync(c, a, b, c); //~| divergent-warp-op
    wmma::store_matrix_sync(C + warp * 256, c, 16, wmma::mem_row_major); //~| divergent-warp-op //~? unwritten-output
}
