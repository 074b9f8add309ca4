// mma.sync m16n8k32 in FP8: e4m3 x e4m3, e5m2 x e5m2 and e4m3 x e5m2, f32 accumulators.
// Expected: three products over K = 64, within the FP8 tensor accumulation (about 13 bits of mantissa).
// warpsmith: --arch sm_89 --kernel mma_fp8 --grid 1 --block 96 --shared 0
// warpsmith: --arg A4=e4m3[16,64]=normal(124) --arg B4=e4m3[8,64]=normal(125) --arg A5=e5m2[16,64]=normal(126)
// warpsmith: --arg B5=e5m2[8,64]=normal(127) --arg C44=out,f32[16,8] --arg C55=out,f32[16,8] --arg C45=out,f32[16,8]

#define MMA(TA, TB)                                                                               \
    asm volatile("mma.sync.aligned.m16n8k32.row.col.f32." TA "." TB ".f32 "                       \
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                          \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                 \
                 : "r"(a[k]), "r"(a[128 + k]), "r"(a[k + 4]), "r"(a[128 + k + 4]), "r"(b[k]), "r"(b[k + 4]))

extern "C" __global__ void mma_fp8(const unsigned* A4, const unsigned* B4, const unsigned* A5, const unsigned* B5,
                                   float* C44, float* C55, float* C45)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = lane / 4, quad = lane % 4;
    const unsigned* a = (warp == 1 ? A5 : A4) + group * 16 + quad;
    const unsigned* b = (warp == 0 ? B4 : B5) + group * 16 + quad;
    float* out = warp == 0 ? C44 : warp == 1 ? C55 : C45;
    float c[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int k = 0; k < 16; k += 8) {
        if (warp == 0)
            MMA("e4m3", "e4m3");
        else if (warp == 1)
            MMA("e5m2", "e5m2");
        else
            MMA("e4m3", "e5m2");
    }
    out[group * 8 + quad * 2] = c[0];
    out[group * 8 + quad * 2 + 1] = c[1];
    out[(group + 8) * 8 + quad * 2] = c[2];
    out[(group + 8) * 8 + quad * 2 + 1] = c[3];
}
