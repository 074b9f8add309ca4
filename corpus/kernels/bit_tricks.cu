// Bit-level integer work: reversal, leading zeros, first set, bit field extract and insert, byte permutes, high and
// 24-bit products, saturating and averaging SIMD in a word, absolute differences, rotates, Morton codes.
// Expected: exact.
// warpsmith: --arch sm_80 --kernel bits --grid 1 --block 96 --shared 0
// warpsmith: --arg a=u32[96]=randint(203,0,4294967296) --arg b=u32[96]=randint(204,0,4294967296)
// warpsmith: --arg out=out,u32[96,14]

__device__ unsigned spread(unsigned v)
{
    v &= 0xffffu;
    v = (v | v << 8) & 0x00ff00ffu;
    v = (v | v << 4) & 0x0f0f0f0fu;
    v = (v | v << 2) & 0x33333333u;
    return (v | v << 1) & 0x55555555u;
}

extern "C" __global__ void bits(const unsigned* a, const unsigned* b, unsigned* out)
{
    const int i = threadIdx.x;
    const unsigned x = a[i], y = b[i];
    unsigned* o = out + i * 14;
    unsigned field, merged;
    asm("bfe.u32 %0, %1, %2, %3;" : "=r"(field) : "r"(x), "r"(y & 31), "r"(y >> 27));
    asm("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(merged) : "r"(x), "r"(y), "r"(5), "r"(11));
    o[0] = __brev(x);
    o[1] = __clz(x & y) << 8 | __ffs(x & ~y);
    o[2] = field;
    o[3] = merged;
    o[4] = __byte_perm(x, y, y & 0x7777u);
    o[5] = __umulhi(x, y) ^ (unsigned)__mulhi((int)x, (int)y);
    o[6] = __umul24(x, y) + (unsigned)__mul24((int)x, (int)y);
    o[7] = __vadd4(x, y) ^ __vavgu4(x, y);
    o[8] = __sad((int)x, (int)y, 17u);
    o[9] = __funnelshift_r(x, y, y & 63);
    o[10] = spread(x) | spread(y) << 1;
    o[11] = (x & y) | (~x & (x ^ 0x5a5a5a5au)); // one lop3
    o[12] = __popc(x) * 100 + __popc(y);
    o[13] = __vmaxs2(x, y) - __vminu2(x, y);
}
