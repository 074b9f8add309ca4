#include <cuda_bf16.h>
#include <mma.h>
// warpsmith: reference = "ref.py:matmul_bias_relu"
// warpsmith: sizes = { m = { default = 32, multiple_of = 16 }, n = { default = 32, multiple_of = 16 }, k = { default = 80, multiple_of = 16 } }
// warpsmith: tolerance = { reduction = "k" }
// warpsmith: work = { flops = "2 * m * n * k", matrix = "bf16" }
// warpsmith: launch = { grid = ["n / 16", "m / 16"], block = [32] }
// warpsmith: [arguments]
// warpsmith: a = "in bf16[m, k]"
// warpsmith: b = "in bf16[k, n]"
// warpsmith: bias = "in fp32[n]"
// warpsmith: c = "out bf16[m, n]"
// warpsmith: n = "size"
// warpsmith: k = "size"
using namespace nvcuda;
__global__ void mm_wmma_bf16(const __nv_bfloat16* a, const __nv_bfloat16* b, const float* bias, __nv_bfloat16* c, int n, int k) {
    __shared__ __align__(32) float tile[256];
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.f);
    for (int i = 0; i < k; i += 16) {
        wmma::load_matrix_sync(fa, a + blockIdx.y * 16 * k + i, k);
        wmma::load_matrix_sync(fb, b + i * n + blockIdx.x * 16, n);
        wmma::mma_sync(acc, fa, fb, acc);
    }
    wmma::store_matrix_sync(tile, acc, 16, wmma::mem_row_major);
    __syncwarp();
    for (int i = threadIdx.x; i < 256; i += 32) {
        int col = blockIdx.x * 16 + i % 16;
        c[(blockIdx.y * 16 + i / 16) * n + col] = __float2bfloat16(fmaxf(tile[i] + bias[col], 0.f));
    }
}
