// The short shapes: mma.sync m16n8k8 in f16 and in bf16, f32 accumulators.
// Expected: H = A B^T from the f16 pair, F = A' B'^T from the bf16 pair, within f32 accumulation.
// warpsmith: --arch sm_80 --kernel mma_k8 --grid 1 --block 64 --shared 0
// warpsmith: --arg Ah=f16[16,24]=normal(113) --arg Bh=f16[8,24]=normal(114) --arg H=out,f32[16,8]
// warpsmith: --arg Af=bf16[16,24]=normal(115) --arg Bf=bf16[8,24]=normal(116) --arg F=out,f32[16,8]

template <bool BF16>
__device__ void product(const unsigned* A, const unsigned* B, float* C)
{
    const int lane = threadIdx.x % 32, group = lane / 4, quad = lane % 4;
    float c0 = 0.0f, c1 = 0.0f, c2 = 0.0f, c3 = 0.0f;
    for (int k = 0; k < 12; k += 4) {
        const unsigned a0 = A[group * 12 + k + quad], a1 = A[(group + 8) * 12 + k + quad];
        const unsigned b0 = B[group * 12 + k + quad];
        if constexpr (BF16)
            asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3) : "r"(a0), "r"(a1), "r"(b0));
        else
            asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3) : "r"(a0), "r"(a1), "r"(b0));
    }
    C[group * 8 + quad * 2] = c0;
    C[group * 8 + quad * 2 + 1] = c1;
    C[(group + 8) * 8 + quad * 2] = c2;
    C[(group + 8) * 8 + quad * 2 + 1] = c3;
}

extern "C" __global__ void mma_k8(const unsigned* Ah, const unsigned* Bh, float* H, const unsigned* Af,
                                  const unsigned* Bf, float* F)
{
    if (threadIdx.x < 32)
        product<false>(Ah, Bh, H);
    else
        product<true>(Af, Bf, F);
}
