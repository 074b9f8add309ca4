#include <cuda_fp16.h>
#include <mma.h>
// warpsmith: reference = "ref.py:matmul"
// warpsmith: sizes = { m = { default = 32, multiple_of = 16 }, n = { default = 48, multiple_of = 16 }, k = { default = 64, multiple_of = 16 } }
// warpsmith: tolerance = { reduction = "k" }
// warpsmith: work = { flops = "2 * m * n * k", matrix = "fp16" }
// warpsmith: launch = { grid = ["n / 16", "m / 16"], block = [32] }
// warpsmith: [arguments]
// warpsmith: a = "in fp16[m, k]"
// warpsmith: b = "in fp16[k, n]"
// warpsmith: c = "out fp32[m, n]"
// warpsmith: m = "size"
// warpsmith: n = "size"
// warpsmith: k = "size"
using namespace nvcuda;
__global__ void mm_wmma_f16(const __half* a, const __half* b, float* c, int m, int n, int k) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);
    for (int i = 0; i < k; i += 16) {
        wmma::load_matrix_sync(fa, a + blockIdx.y * 16 * k + i, k);
        wmma::load_matrix_sync(fb, b + i * n + blockIdx.x * 16, n);
        wmma::mma_sync(acc, fa, fb, acc);
    }
    wmma::store_matrix_sync(c + blockIdx.y * 16 * n + blockIdx.x * 16, acc, n, wmma::mem_row_major);
}
