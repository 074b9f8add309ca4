// ldmatrix from a tile of 36-half rows: a row of 72 bytes is not a multiple of the 16 bytes that ldmatrix reads.
// warpsmith: --arch sm_80 --kernel frag_copy --grid 1 --block 32 --shared 0
// warpsmith: --arg in=u16[16,32]=randint(3,0,65536) --arg out=out,u32[2,32,4]

constexpr int PITCH = 36;

__device__ __forceinline__ uint4 ldmatrix_x4(const unsigned short* row)
{
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(row));
    uint4 r;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w) : "r"(at));
    return r;
}

extern "C" __global__ void frag_copy(const unsigned short* in, unsigned* out)
{
    __shared__ __align__(16) unsigned short tile[16 * PITCH];
    const int lane = threadIdx.x;
    for (int r = 0; r < 16; ++r)
        tile[r * PITCH + lane] = in[r * 32 + lane];
    __syncwarp();
    for (int half = 0; half < 2; ++half) {
        const unsigned short* row = tile + (lane & 15) * PITCH + half * 16 + (lane >> 4) * 8;
        const uint4 frag = ldmatrix_x4(row); //~ misaligned
        reinterpret_cast<uint4*>(out)[half * 32 + lane] = frag; //~? uninitialised
    }
}
