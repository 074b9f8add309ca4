// Causal flash attention in bf16 with mma.sync, with all intermediate values in registers: ldmatrix for Q, K and
// (transposed) V, softmax by quad shuffles, P reused as the A operand, K and V double-buffered by cp.async. D = 32,
// 16 queries per warp, 8-key steps in tiles of 16.
// Expected: O = softmax(causal(Q K^T / sqrt 32)) V, in bf16.
// warpsmith: --arch sm_80 --kernel flash_mma --grid 1 --block 64 --shared 0
// warpsmith: --arg Q=bf16[32,32]=normal(196) --arg K=bf16[32,32]=normal(197) --arg V=bf16[32,32]=normal(198)
// warpsmith: --arg O=out,bf16[32,32]

#include <cuda_bf16.h>
#include <math_constants.h>

constexpr int D = 32, PITCH = D + 8;

__device__ __forceinline__ unsigned at(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }

__device__ __forceinline__ void copy16(void* dst, const void* src)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(at(dst)), "l"(src) : "memory");
}

__device__ __forceinline__ void load_x4(unsigned (&r)[4], const void* p)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at(p)));
}

__device__ __forceinline__ void load_x4_trans(unsigned (&r)[4], const void* p)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at(p)));
}

__device__ __forceinline__ void mma(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ unsigned pack(float lo, float hi)
{
    const __nv_bfloat162 v = __floats2bfloat162_rn(lo, hi);
    return *reinterpret_cast<const unsigned*>(&v);
}

extern "C" __global__ void flash_mma(const __nv_bfloat16* Q, const __nv_bfloat16* K, const __nv_bfloat16* V,
                                     __nv_bfloat16* O)
{
    __shared__ __align__(16) __nv_bfloat16 Qs[32][PITCH], Ks[2][16][PITCH], Vs[2][16][PITCH];
    const int t = threadIdx.x, warp = t / 32, lane = t % 32, group = lane / 4, quad = lane % 4;
    const int row = t / 4, chunk = t % 4 * 8; // 64 threads copy 16 rows of four chunks

    auto fetch = [&](int tile) {
        copy16(&Ks[tile & 1][row][chunk], K + (tile * 16 + row) * D + chunk);
        copy16(&Vs[tile & 1][row][chunk], V + (tile * 16 + row) * D + chunk);
    };
    copy16(&Qs[row][chunk], Q + row * D + chunk);
    copy16(&Qs[row + 16][chunk], Q + (row + 16) * D + chunk);
    fetch(0);
    asm volatile("cp.async.commit_group;" ::: "memory");

    unsigned q[2][4];
    float o[4][4] = {}, m[2] = {-CUDART_INF_F, -CUDART_INF_F}, l[2] = {};
    for (int tile = 0; tile < 2; ++tile) {
        if (tile == 0) {
            fetch(1);
            asm volatile("cp.async.commit_group;" ::: "memory");
            asm volatile("cp.async.wait_group 1;" ::: "memory");
        } else {
            asm volatile("cp.async.wait_group 0;" ::: "memory");
        }
        __syncthreads();
        if (tile == 0)
            for (int k = 0; k < 2; ++k)
                load_x4(q[k], &Qs[warp * 16 + lane % 16][k * 16 + lane / 16 * 8]);
        if (tile > warp)
            continue; // all of this tile's keys come after all of this warp's queries

        // S = Q K^T: two 8-key halves, depth 32 in two steps of 16.
        float s[2][4] = {};
        for (int k = 0; k < 2; ++k) {
            unsigned b[4];
            load_x4(b, &Ks[tile & 1][lane % 8 + lane / 16 * 8][k * 16 + (lane / 8 & 1) * 8]);
            mma(s[0], q[k], b[0], b[1]);
            mma(s[1], q[k], b[2], b[3]);
        }
        const float scale = 0.17677669529663687f * 1.44269504088896341f; // 1/sqrt(32), in powers of two
        for (int h = 0; h < 2; ++h)
            for (int e = 0; e < 4; ++e) {
                const int key = tile * 16 + h * 8 + quad * 2 + (e & 1), query = warp * 16 + group + (e >> 1) * 8;
                s[h][e] = key <= query ? s[h][e] * scale : -CUDART_INF_F;
            }
        for (int r = 0; r < 2; ++r) {
            float top = fmaxf(fmaxf(s[0][2 * r], s[0][2 * r + 1]), fmaxf(s[1][2 * r], s[1][2 * r + 1]));
            top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
            top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
            const float now = fmaxf(m[r], top), shrink = exp2f(m[r] - now);
            m[r] = now;
            l[r] *= shrink;
            for (int h = 0; h < 2; ++h)
                for (int e = 2 * r; e < 2 * r + 2; ++e) {
                    s[h][e] = exp2f(s[h][e] - now);
                    l[r] += s[h][e];
                }
            for (int n = 0; n < 4; ++n) {
                o[n][2 * r] *= shrink;
                o[n][2 * r + 1] *= shrink;
            }
        }
        // O += P V: P's accumulator layout is the A operand's layout.
        const unsigned p[4] = {pack(s[0][0], s[0][1]), pack(s[0][2], s[0][3]), pack(s[1][0], s[1][1]),
                               pack(s[1][2], s[1][3])};
        for (int n = 0; n < 4; n += 2) {
            unsigned b[4];
            load_x4_trans(b, &Vs[tile & 1][lane % 16][n * 8 + lane / 16 * 8]);
            mma(o[n], p, b[0], b[1]);
            mma(o[n + 1], p, b[2], b[3]);
        }
    }
    for (int r = 0; r < 2; ++r) {
        l[r] += __shfl_xor_sync(0xffffffffu, l[r], 1);
        l[r] += __shfl_xor_sync(0xffffffffu, l[r], 2);
        const float inv = 1.0f / l[r];
        for (int n = 0; n < 4; ++n)
            *reinterpret_cast<unsigned*>(&O[(warp * 16 + group + r * 8) * D + n * 8 + quad * 2]) =
                pack(o[n][2 * r] * inv, o[n][2 * r + 1] * inv);
    }
}
