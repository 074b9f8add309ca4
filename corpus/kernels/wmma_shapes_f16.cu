// The two non-square WMMA shapes: m32n8k16 with f16 and m8n32k16 with f32 accumulators, and element-wise scaling.
// Expected: P = 0.5 (A B) in f16 from A [32,16], B [16,8]; Q = A' B' from A' [8,16], B' [16,32].
// warpsmith: --arch sm_75 --kernel shapes --grid 1 --block 32 --shared 0
// warpsmith: --arg A=f16[32,16]=normal(102) --arg B=f16[16,8]=normal(103) --arg P=out,f16[32,8]
// warpsmith: --arg A2=f16[8,16]=normal(104) --arg B2=f16[16,32]=normal(105) --arg Q=out,f32[8,32]

#include <mma.h>
using namespace nvcuda;

extern "C" __global__ void shapes(const __half* A, const __half* B, __half* P, const __half* A2, const __half* B2,
                                  float* Q)
{
    {
        wmma::fragment<wmma::matrix_a, 32, 8, 16, __half, wmma::row_major> a;
        wmma::fragment<wmma::matrix_b, 32, 8, 16, __half, wmma::row_major> b;
        wmma::fragment<wmma::accumulator, 32, 8, 16, __half> c;
        wmma::fill_fragment(c, __float2half(0.0f));
        wmma::load_matrix_sync(a, A, 16);
        wmma::load_matrix_sync(b, B, 8);
        wmma::mma_sync(c, a, b, c);
        for (int i = 0; i < c.num_elements; ++i)
            c.x[i] = __hmul(c.x[i], __float2half(0.5f));
        wmma::store_matrix_sync(P, c, 8, wmma::mem_row_major);
    }
    {
        wmma::fragment<wmma::matrix_a, 8, 32, 16, __half, wmma::row_major> a;
        wmma::fragment<wmma::matrix_b, 8, 32, 16, __half, wmma::row_major> b;
        wmma::fragment<wmma::accumulator, 8, 32, 16, float> c;
        wmma::fill_fragment(c, 0.0f);
        wmma::load_matrix_sync(a, A2, 16);
        wmma::load_matrix_sync(b, B2, 32);
        wmma::mma_sync(c, a, b, c);
        wmma::store_matrix_sync(Q, c, 32, wmma::mem_row_major);
    }
}
