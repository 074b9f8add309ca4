// WMMA in int8 with int32 accumulators, and the same product in uint8 with a saturating mma.
// Expected: C = A B, exact; U = |A| |B| in unsigned bytes, exact.
// warpsmith: --arch sm_80 --kernel wmma_s8 --grid 1 --block 32 --shared 0
// warpsmith: --arg A=i8[16,32]=randint(93,-128,128) --arg B=i8[32,16]=randint(94,-128,128) --arg C=out,i32[16,16]
// warpsmith: --arg Ua=u8[16,32]=randint(95,0,256) --arg Ub=u8[32,16]=randint(96,0,256) --arg U=out,i32[16,16]

#include <mma.h>
using namespace nvcuda;

template <typename T>
__device__ void product(const T* A, const T* B, int* C)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, int> c;
    wmma::fill_fragment(c, 0);
    for (int k = 0; k < 32; k += 16) {
        wmma::load_matrix_sync(a, A + k, 32);
        wmma::load_matrix_sync(b, B + k * 16, 16);
        wmma::mma_sync(c, a, b, c, true);
    }
    wmma::store_matrix_sync(C, c, 16, wmma::mem_row_major);
}

extern "C" __global__ void wmma_s8(const signed char* A, const signed char* B, int* C,
                                   const unsigned char* Ua, const unsigned char* Ub, int* U)
{
    product(A, B, C);
    product(Ua, Ub, U);
}
