// ldmatrix.x4 with rows that all start at a multiple of 16 bytes.
// warpsmith: --arch sm_80 --kernel fragments --grid 1 --block 32 --shared 0
// warpsmith: --arg x=u16[32,8]=randint(1,0,1000) --arg out=out,u32[4,32]

extern "C" __global__ void fragments(const unsigned short* x, unsigned* out)
{
    __shared__ __align__(16) unsigned short tile[33 * 8];
    const int lane = threadIdx.x;
    for (int c = 0; c < 8; ++c)
        tile[lane * 8 + c] = x[lane * 8 + c];
    if (lane < 8)
        tile[32 * 8 + lane] = 0;
    __syncwarp();
    const unsigned row = (unsigned)__cvta_generic_to_shared(&tile[lane * 8]);
    unsigned r[4];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(row));
    for (int i = 0; i < 4; ++i)
        out[i * 32 + lane] = r[i];
}
