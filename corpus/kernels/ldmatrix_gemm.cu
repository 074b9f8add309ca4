// f16 product fed by ldmatrix: x4 for A, x2.trans for a row-major B, XOR-swizzled shared tiles, cp.async loads.
// Expected: C = A B within f32 accumulation.
// warpsmith: --arch sm_80 --kernel ldmatrix_gemm --grid 1,2 --block 64 --shared 0
// warpsmith: --arg A=f16[32,64]=normal(131) --arg B=f16[64,16]=normal(132) --arg C=out,f32[32,16]

#include <cuda_fp16.h>

__device__ __forceinline__ unsigned shared_address(const void* p)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// Eight-half chunks of row r are stored at chunk position c ^ (r & 7).
__device__ __forceinline__ int swizzled(int row, int chunk) { return row * 64 + ((chunk ^ (row & 7)) * 8); }

extern "C" __global__ void ldmatrix_gemm(const __half* A, const __half* B, float* C)
{
    __shared__ __align__(128) __half As[16 * 64];
    __shared__ __align__(128) __half Bs[64 * 16];
    const int t = threadIdx.x, warp = t / 32, lane = t % 32;
    const int row0 = blockIdx.y * 16, col0 = warp * 8;

    for (int i = t; i < 16 * 8; i += 64)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(As + swizzled(i / 8, i % 8))),
                     "l"(A + (row0 + i / 8) * 64 + i % 8 * 8));
    for (int i = t; i < 64 * 2; i += 64)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(Bs + i * 8)), "l"(B + i * 8));
    asm volatile("cp.async.commit_group;\n\tcp.async.wait_all;" ::: "memory");
    __syncthreads();

    float c0 = 0.0f, c1 = 0.0f, c2 = 0.0f, c3 = 0.0f;
#pragma unroll
    for (int k = 0; k < 64; k += 16) {
        unsigned a0, a1, a2, a3, b0, b1;
        const unsigned a_at = shared_address(As + swizzled(lane & 15, k / 8 + (lane >> 4)));
        const unsigned b_at = shared_address(Bs + (k + (lane & 15)) * 16 + col0);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(a0), "=r"(a1), "=r"(a2), "=r"(a3) : "r"(a_at));
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                     : "=r"(b0), "=r"(b1) : "r"(b_at));
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                     "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
                     : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    }
    const int r = row0 + lane / 4, c = col0 + lane % 4 * 2;
    C[r * 16 + c] = c0;
    C[r * 16 + c + 1] = c1;
    C[(r + 8) * 16 + c] = c2;
    C[(r + 8) * 16 + c + 1] = c3;
}
