// ldmatrix.x2 takes its row addresses from lanes 0 to 15, so only those lanes execute it. It is a warp-wide operation
// that all 32 lanes must execute.
// warpsmith: --arch sm_80 --kernel frag_b --grid 1 --block 32 --shared 0
// warpsmith: --arg in=u16[16,8]=randint(3,0,65536) --arg out=out,u32[32,2]

__device__ __forceinline__ void ldmatrix_x2_trans(unsigned& r0, unsigned& r1, unsigned at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(r0), "=r"(r1) : "r"(at));
}

extern "C" __global__ void frag_b(const unsigned short* in, unsigned* out)
{
    __shared__ __align__(16) unsigned short tile[16][8];
    const int lane = threadIdx.x;
    for (int i = lane; i < 128; i += 32)
        tile[i / 8][i % 8] = in[i];
    __syncwarp();
    unsigned r0 = 0, r1 = 0;
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(&tile[lane & 15][0]));
    if (lane < 16)
        ldmatrix_x2_trans(r0, r1, at); //~ divergent-warp-op
    out[lane * 2] = r0;
    out[lane * 2 + 1] = r1;
}
