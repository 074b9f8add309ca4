// Flash attention forward, one head, f16 in and f32 out: 16 queries per warp, 16 keys per step, WMMA for both products,
// online softmax in shared memory. 40 keys: the last tile is ragged.
// Expected: O = softmax(Q K^T / 8) V.
// warpsmith: --arch sm_80 --kernel flash --grid 2 --block 32 --shared 0
// warpsmith: --arg Q=f16[32,64]=normal(193) --arg K=f16[40,64]=normal(194) --arg V=f16[40,64]=normal(195)
// warpsmith: --arg O=out,f32[32,64] --arg keys=i32=40

#include <mma.h>
using namespace nvcuda;

constexpr int D = 64;

extern "C" __global__ void __launch_bounds__(32) flash(const __half* Q, const __half* K, const __half* V, float* O,
                                                       int keys)
{
    __shared__ __half Qs[16][D + 8], Ks[16][D + 8], Vs[16][D + 8], Ps[16][24];
    __shared__ float S[16][20], Os[16][D + 4], row_max[16], row_sum[16], row_scale[16];
    const int lane = threadIdx.x, q0 = blockIdx.x * 16;

    for (int i = lane; i < 16 * D; i += 32) {
        Qs[i / D][i % D] = Q[(q0 + i / D) * D + i % D];
        Os[i / D][i % D] = 0.0f;
    }
    if (lane < 16) {
        row_max[lane] = -1.0e30f;
        row_sum[lane] = 0.0f;
    }
    __syncwarp();

    for (int k0 = 0; k0 < keys; k0 += 16) {
        for (int i = lane; i < 16 * D; i += 32) {
            const bool valid = k0 + i / D < keys;
            Ks[i / D][i % D] = valid ? K[(k0 + i / D) * D + i % D] : __float2half(0.0f);
            Vs[i / D][i % D] = valid ? V[(k0 + i / D) * D + i % D] : __float2half(0.0f);
        }
        __syncwarp();

        wmma::fragment<wmma::accumulator, 16, 16, 16, float> s;
        wmma::fill_fragment(s, 0.0f);
        for (int d = 0; d < D; d += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> q;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> k;
            wmma::load_matrix_sync(q, &Qs[0][d], D + 8);
            wmma::load_matrix_sync(k, &Ks[0][d], D + 8);
            wmma::mma_sync(s, q, k, s);
        }
        wmma::store_matrix_sync(&S[0][0], s, 20, wmma::mem_row_major);
        __syncwarp();

        if (lane < 16) {
            const int valid = min(16, keys - k0);
            float m = row_max[lane];
            for (int c = 0; c < valid; ++c)
                m = fmaxf(m, S[lane][c] * 0.125f);
            float sum = 0.0f;
            for (int c = 0; c < 16; ++c) {
                const float p = c < valid ? __expf(S[lane][c] * 0.125f - m) : 0.0f;
                Ps[lane][c] = __float2half(p);
                sum += p;
            }
            row_scale[lane] = __expf(row_max[lane] - m);
            row_sum[lane] = row_sum[lane] * row_scale[lane] + sum;
            row_max[lane] = m;
        }
        __syncwarp();
        for (int i = lane; i < 16 * D; i += 32)
            Os[i / D][i % D] *= row_scale[i / D];
        __syncwarp();

        wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> p;
        wmma::load_matrix_sync(p, &Ps[0][0], 24);
        for (int d = 0; d < D; d += 16) {
            wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> v;
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> o;
            wmma::load_matrix_sync(v, &Vs[0][d], D + 8);
            wmma::load_matrix_sync(o, &Os[0][d], D + 4, wmma::mem_row_major);
            wmma::mma_sync(o, p, v, o);
            wmma::store_matrix_sync(&Os[0][d], o, D + 4, wmma::mem_row_major);
        }
        __syncwarp();
    }
    for (int i = lane; i < 16 * D; i += 32)
        O[(q0 + i / D) * D + i % D] = Os[i / D][i % D] / row_sum[i / D];
}
