// Each lane skips the product if its rows are past the end of the matrix. The rows differ between lanes, so part of the
// warp skips a warp-wide mma.
// warpsmith: --arch sm_80 --kernel ragged_mma --grid 1 --block 64 --shared 0
// warpsmith: --arg A=f16[32,16]=normal(3) --arg Bt=f16[8,16]=normal(4) --arg C=out,f32[20,8] --arg rows=i32=20

__device__ __forceinline__ void mma_f16(float (&c)[4], const unsigned* a, const unsigned* b)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[64]), "r"(a[4]), "r"(a[68]), "r"(b[0]), "r"(b[4]));
}

extern "C" __global__ void ragged_mma(const unsigned short* A, const unsigned short* Bt, float* C, int rows)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = lane / 4, quad = lane % 4;
    const int row = warp * 16 + group;
    float c[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    const unsigned* a = reinterpret_cast<const unsigned*>(A) + row * 8 + quad;
    const unsigned* b = reinterpret_cast<const unsigned*>(Bt) + group * 8 + quad;
    if (row < rows)
        mma_f16(c, a, b); //~ divergent-warp-op
    if (row < rows)
        *reinterpret_cast<float2*>(&C[row * 8 + quad * 2]) = make_float2(c[0], c[1]);
    if (row + 8 < rows)
        *reinterpret_cast<float2*>(&C[(row + 8) * 8 + quad * 2]) = make_float2(c[2], c[3]);
}
