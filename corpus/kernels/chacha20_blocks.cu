// ChaCha20 key stream: rotations become funnel shifts or byte permutes, 16 words of state in registers.
// Expected: the RFC 8439 block function for counters first, first + 1, ... with the given key and nonce, exactly.
// warpsmith: --arch sm_80 --kernel chacha20 --grid 1 --block 32 --shared 0
// warpsmith: --arg key=u32[8]=randint(201,0,4294967296) --arg nonce=u32[3]=randint(202,0,4294967296)
// warpsmith: --arg first=u32=7 --arg stream=out,u32[32,16]

__device__ __forceinline__ void quarter(unsigned& a, unsigned& b, unsigned& c, unsigned& d)
{
    a += b; d ^= a; d = __byte_perm(d, d, 0x1032);
    c += d; b ^= c; b = __funnelshift_l(b, b, 12);
    a += b; d ^= a; d = __byte_perm(d, d, 0x2103);
    c += d; b ^= c; b = __funnelshift_l(b, b, 7);
}

extern "C" __global__ void chacha20(const unsigned* key, const unsigned* nonce, unsigned first, uint4* stream)
{
    unsigned s[16] = {0x61707865u, 0x3320646eu, 0x79622d32u, 0x6b206574u};
    for (int k = 0; k < 8; ++k)
        s[4 + k] = key[k];
    s[12] = first + threadIdx.x;
    for (int k = 0; k < 3; ++k)
        s[13 + k] = nonce[k];
    unsigned x[16];
    for (int k = 0; k < 16; ++k)
        x[k] = s[k];
#pragma unroll 1
    for (int round = 0; round < 10; ++round) {
        quarter(x[0], x[4], x[8], x[12]);
        quarter(x[1], x[5], x[9], x[13]);
        quarter(x[2], x[6], x[10], x[14]);
        quarter(x[3], x[7], x[11], x[15]);
        quarter(x[0], x[5], x[10], x[15]);
        quarter(x[1], x[6], x[11], x[12]);
        quarter(x[2], x[7], x[8], x[13]);
        quarter(x[3], x[4], x[9], x[14]);
    }
    for (int k = 0; k < 4; ++k)
        stream[threadIdx.x * 4 + k] = make_uint4(x[4 * k] + s[4 * k], x[4 * k + 1] + s[4 * k + 1],
                                                 x[4 * k + 2] + s[4 * k + 2], x[4 * k + 3] + s[4 * k + 3]);
}
