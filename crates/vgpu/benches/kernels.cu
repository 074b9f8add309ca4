// Kernels of the speed benchmark. `ptx/kernels.ptx` is this file, compiled once (NVRTC 13.0, sm_80, -lineinfo).

#include <mma.h>

constexpr int TILE = 16;

// C = A B. All matrices are N x N and row-major, and N is a multiple of 16. Grid (N/16, N/16), block (16, 16).
extern "C" __global__ void sgemm(const float* A, const float* B, float* C, int N)
{
    __shared__ float As[TILE][TILE];
    __shared__ float Bs[TILE][TILE];
    const int row = blockIdx.y * TILE + threadIdx.y;
    const int col = blockIdx.x * TILE + threadIdx.x;
    float acc = 0.0f;
    for (int t = 0; t < N; t += TILE) {
        As[threadIdx.y][threadIdx.x] = A[row * N + t + threadIdx.x];
        Bs[threadIdx.y][threadIdx.x] = B[(t + threadIdx.y) * N + col];
        __syncthreads();
        for (int k = 0; k < TILE; ++k)
            acc += As[threadIdx.y][k] * Bs[k][threadIdx.x];
        __syncthreads();
    }
    C[row * N + col] = acc;
}

// Sums of n floats per block: grid-stride loads, shuffles, one barrier.
extern "C" __global__ void reduce(const float* x, float* sums, int n)
{
    __shared__ float partial[32];
    float s = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        s += x[i];
    for (int o = 16; o > 0; o /= 2)
        s += __shfl_down_sync(0xffffffffu, s, o);
    if (threadIdx.x % 32 == 0)
        partial[threadIdx.x / 32] = s;
    __syncthreads();
    if (threadIdx.x < 32) {
        s = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0.0f;
        for (int o = 16; o > 0; o /= 2)
            s += __shfl_down_sync(0xffffffffu, s, o);
        if (threadIdx.x == 0)
            sums[blockIdx.x] = s;
    }
}

// C = A B^T in f16 with f32 accumulators by mma.m16n8k16. One warp computes a 16 x 8 tile. K is a multiple of 16.
extern "C" __global__ void mma_gemm(const unsigned* A, const unsigned* B, float* C, int N, int K)
{
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int m0 = blockIdx.y * 16, n0 = (blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32) * 8;
    float c[4] = {};
    for (int k = 0; k < K / 2; k += 8) {
        const unsigned a0 = A[(m0 + g) * (K / 2) + k + t], a1 = A[(m0 + g + 8) * (K / 2) + k + t];
        const unsigned a2 = A[(m0 + g) * (K / 2) + k + t + 4], a3 = A[(m0 + g + 8) * (K / 2) + k + t + 4];
        const unsigned b0 = B[(n0 + g) * (K / 2) + k + t], b1 = B[(n0 + g) * (K / 2) + k + t + 4];
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    }
    C[(m0 + g) * N + n0 + 2 * t] = c[0];
    C[(m0 + g) * N + n0 + 2 * t + 1] = c[1];
    C[(m0 + g + 8) * N + n0 + 2 * t] = c[2];
    C[(m0 + g + 8) * N + n0 + 2 * t + 1] = c[3];
}

// Flash attention, one head, no mask: S rows of D = 64, f16 input, f32 output. A warp computes 16 query rows with
// WMMA. Scores and probabilities go through shared memory. Block of 4 warps, grid S / 64.
extern "C" __global__ void wmma_attention(const __half* Q, const __half* K, const __half* V, float* O, int S)
{
    using namespace nvcuda::wmma;
    __shared__ __half ks[16][64], vs[16][64];
    __shared__ float scores[4][16][16];
    __shared__ __half probs[4][16][16];
    __shared__ float out[4][16][64];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int row0 = (blockIdx.x * 4 + warp) * 16;
    fragment<matrix_a, 16, 16, 16, __half, row_major> q[4];
    for (int d = 0; d < 4; ++d)
        load_matrix_sync(q[d], Q + row0 * 64 + d * 16, 64);
    for (int i = lane; i < 16 * 64; i += 32)
        out[warp][i / 64][i % 64] = 0.0f;
    float m = -1e30f, l = 0.0f;
    for (int k0 = 0; k0 < S; k0 += 16) {
        for (int i = threadIdx.x; i < 16 * 64 / 8; i += blockDim.x) {
            reinterpret_cast<uint4*>(ks)[i] = reinterpret_cast<const uint4*>(K + k0 * 64)[i];
            reinterpret_cast<uint4*>(vs)[i] = reinterpret_cast<const uint4*>(V + k0 * 64)[i];
        }
        __syncthreads();
        fragment<accumulator, 16, 16, 16, float> s;
        fill_fragment(s, 0.0f);
        for (int d = 0; d < 4; ++d) {
            fragment<matrix_b, 16, 16, 16, __half, col_major> k;
            load_matrix_sync(k, &ks[0][d * 16], 64);
            mma_sync(s, q[d], k, s);
        }
        store_matrix_sync(&scores[warp][0][0], s, 16, mem_row_major);
        __syncwarp();
        if (lane < 16) {
            float top = m;
            for (int j = 0; j < 16; ++j)
                top = fmaxf(top, scores[warp][lane][j] * 0.125f);
            const float keep = __expf(m - top);
            float sum = 0.0f;
            for (int j = 0; j < 16; ++j) {
                const float p = __expf(scores[warp][lane][j] * 0.125f - top);
                sum += p;
                probs[warp][lane][j] = __float2half(p);
            }
            l = l * keep + sum;
            m = top;
            for (int d = 0; d < 64; ++d)
                out[warp][lane][d] *= keep;
        }
        __syncwarp();
        fragment<matrix_a, 16, 16, 16, __half, row_major> p;
        load_matrix_sync(p, &probs[warp][0][0], 16);
        for (int d = 0; d < 4; ++d) {
            fragment<matrix_b, 16, 16, 16, __half, row_major> v;
            fragment<accumulator, 16, 16, 16, float> o;
            load_matrix_sync(v, &vs[0][d * 16], 64);
            load_matrix_sync(o, &out[warp][0][d * 16], 64, mem_row_major);
            mma_sync(o, p, v, o);
            store_matrix_sync(&out[warp][0][d * 16], o, 64, mem_row_major);
        }
        __syncthreads();
    }
    if (lane < 16)
        for (int d = 0; d < 64; ++d)
            O[(row0 + lane) * 64 + d] = out[warp][lane][d] / l;
}
