// WMMA in tf32 (m16n16k8), inputs rounded with __float_to_tf32, column-major B and column-major store.
// Expected: Ct = (tf32(A) tf32(B))^T within f32 accumulation.
// warpsmith: --arch sm_80 --kernel wmma_tf32 --grid 1 --block 32 --shared 0
// warpsmith: --arg A=f32[16,24]=normal(97) --arg Bt=f32[16,24]=normal(98) --arg Ct=out,f32[16,16]

#include <mma.h>
using namespace nvcuda;

extern "C" __global__ void wmma_tf32(const float* A, const float* Bt, float* Ct)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::col_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 8, float> c;
    wmma::fill_fragment(c, 0.0f);
    for (int k = 0; k < 24; k += 8) {
        wmma::load_matrix_sync(a, A + k, 24);
        wmma::load_matrix_sync(b, Bt + k, 24);
        for (int i = 0; i < a.num_elements; ++i)
            a.x[i] = wmma::__float_to_tf32(a.x[i]);
        for (int i = 0; i < b.num_elements; ++i)
            b.x[i] = wmma::__float_to_tf32(b.x[i]);
        wmma::mma_sync(c, a, b, c);
    }
    wmma::store_matrix_sync(Ct, c, 16, wmma::mem_col_major);
}
