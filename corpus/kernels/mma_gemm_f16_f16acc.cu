// mma.sync m16n8k16 in f16 with f16 accumulators, one warp per 16x8 tile.
// Expected: C = A B^T within f16 accumulation over 48 products.
// warpsmith: --arch sm_80 --kernel mma_f16 --grid 2,2 --block 32 --shared 0
// warpsmith: --arg A=f16[32,48]=uniform(111) --arg Bt=f16[16,48]=uniform(112) --arg C=out,f16[32,16]

extern "C" __global__ void mma_f16(const unsigned* A, const unsigned* Bt, unsigned* C)
{
    constexpr int K = 48, N = 16; // in halfs; a word holds two
    const int lane = threadIdx.x, group = lane / 4, quad = lane % 4;
    const unsigned* a = A + (blockIdx.y * 16 + group) * (K / 2) + quad;
    const unsigned* b = Bt + (blockIdx.x * 8 + group) * (K / 2) + quad;
    unsigned c0 = 0, c1 = 0;
    for (int k = 0; k < K / 2; k += 8)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%0,%1};"
                     : "+r"(c0), "+r"(c1)
                     : "r"(a[k]), "r"(a[k + 8 * (K / 2)]), "r"(a[k + 4]), "r"(a[k + 8 * (K / 2) + 4]),
                       "r"(b[k]), "r"(b[k + 4]));
    unsigned* c = C + (blockIdx.y * 16 + group) * (N / 2) + blockIdx.x * 4 + quad;
    c[0] = c0;
    c[8 * (N / 2)] = c1;
}
