// mma.sync m16n8k16 product in bf16 with f32 accumulators, fragments gathered by hand from global memory.
// One warp per 16x8 tile of C.
// Expected: C[m][n] = sum_k A[m][k] Bt[n][k], within f32 accumulation.
// warpsmith: --arch sm_80 --kernel mma_bf16 --grid 3,2 --block 32 --shared 0
// warpsmith: --arg A=bf16[32,64]=normal(51) --arg Bt=bf16[24,64]=normal(52) --arg C=out,f32[32,24]
// warpsmith: --arg N=i32=24 --arg K=i32=64

__device__ __forceinline__ unsigned pair(const unsigned short* p)
{
    return *reinterpret_cast<const unsigned*>(p);
}

extern "C" __global__ void mma_bf16(const unsigned short* __restrict__ A, const unsigned short* __restrict__ Bt,
                                    float* __restrict__ C, int N, int K)
{
    const int lane = threadIdx.x, group = lane >> 2, quad = lane & 3;
    const int row = blockIdx.y * 16, col = blockIdx.x * 8;
    float c[4] = {0.0f, 0.0f, 0.0f, 0.0f};

    for (int k = 0; k < K; k += 16) {
        const unsigned short* a_lo = A + (row + group) * K + k + quad * 2;
        const unsigned short* a_hi = a_lo + 8 * K;
        const unsigned short* b = Bt + (col + group) * K + k + quad * 2;
        const unsigned a0 = pair(a_lo), a1 = pair(a_hi), a2 = pair(a_lo + 8), a3 = pair(a_hi + 8);
        const unsigned b0 = pair(b), b1 = pair(b + 8);
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                     "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    }
    float* out = C + (row + group) * N + col + quad * 2;
    *reinterpret_cast<float2*>(out) = make_float2(c[0], c[1]);
    *reinterpret_cast<float2*>(out + 8 * N) = make_float2(c[2], c[3]);
}
