// mma.sync in tf32, m16n8k8 for the body and m16n8k4 for the last four; inputs rounded by cvt.rna.tf32.
// Expected: C = tf32(A) tf32(B) within f32 accumulation, K = 20.
// warpsmith: --arch sm_80 --kernel mma_tf32 --grid 2 --block 32 --shared 0
// warpsmith: --arg A=f32[16,20]=normal(117) --arg B=f32[20,16]=normal(118) --arg C=out,f32[16,16]

__device__ __forceinline__ unsigned tf32(float x)
{
    unsigned r;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
    return r;
}

extern "C" __global__ void mma_tf32(const float* A, const float* B, float* C)
{
    constexpr int K = 20, N = 16;
    const int lane = threadIdx.x, group = lane / 4, quad = lane % 4, col = blockIdx.x * 8;
    float c[4] = {};
    int k = 0;
    for (; k + 8 <= K; k += 8) {
        const unsigned a0 = tf32(A[group * K + k + quad]), a1 = tf32(A[(group + 8) * K + k + quad]);
        const unsigned a2 = tf32(A[group * K + k + quad + 4]), a3 = tf32(A[(group + 8) * K + k + quad + 4]);
        const unsigned b0 = tf32(B[(k + quad) * N + col + group]), b1 = tf32(B[(k + quad + 4) * N + col + group]);
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                     "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    }
    const unsigned a0 = tf32(A[group * K + k + quad]), a1 = tf32(A[(group + 8) * K + k + quad]);
    const unsigned b0 = tf32(B[(k + quad) * N + col + group]);
    asm volatile("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a0), "r"(a1), "r"(b0));
    C[group * N + col + quad * 2] = c[0];
    C[group * N + col + quad * 2 + 1] = c[1];
    C[(group + 8) * N + col + quad * 2] = c[2];
    C[(group + 8) * N + col + quad * 2 + 1] = c[3];
}
