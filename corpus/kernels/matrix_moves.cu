// Moving 8x8 b16 matrices: ldmatrix x1, movmatrix.trans in registers, stmatrix x2 and x2.trans back to shared memory.
// Expected: out0 = in^T (by movmatrix), out1 = in (stored as is), out2 = in^T (stored transposed).
// warpsmith: --arch sm_90 --kernel matrix_moves --grid 1 --block 32 --shared 0
// warpsmith: --arg in=u16[8,8]=randint(133,0,65536) --arg out0=out,u16[8,8] --arg out1=out,u16[8,8]
// warpsmith: --arg out2=out,u16[8,8]

extern "C" __global__ void matrix_moves(const unsigned short* in, unsigned* out0, unsigned* out1, unsigned* out2)
{
    __shared__ __align__(16) unsigned short tile[8][8];
    __shared__ __align__(16) unsigned short back[4][8][8];
    const int lane = threadIdx.x;
    tile[lane / 8][lane % 8] = in[lane];
    tile[4 + lane / 8][lane % 8] = in[32 + lane];
    __syncwarp();

    unsigned r, t;
    const unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(&tile[lane & 7][0]));
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r) : "r"(from));
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(t) : "r"(r));
    out0[lane] = t;

    const unsigned plain = static_cast<unsigned>(__cvta_generic_to_shared(&back[(lane >> 3) & 1][lane & 7][0]));
    const unsigned flipped = plain + 2 * 8 * 8 * 2;
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1,%2};" ::"r"(plain), "r"(r), "r"(t) : "memory");
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1,%2};" ::"r"(flipped), "r"(r), "r"(t)
                 : "memory");
    __syncwarp();
    out1[lane] = reinterpret_cast<const unsigned*>(&back[0][0][0])[lane];
    out2[lane] = reinterpret_cast<const unsigned*>(&back[2][0][0])[lane];
}
