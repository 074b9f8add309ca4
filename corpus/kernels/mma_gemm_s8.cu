// mma.sync in 8-bit integers: s8 x s8 with m16n8k32, u8 x s8 with m16n8k32 and saturation, s8 x s8 with m16n8k16.
// Expected: three exact int32 products, K = 64, 64 and 16.
// warpsmith: --arch sm_80 --kernel mma_int8 --grid 1 --block 96 --shared 0
// warpsmith: --arg A=i8[16,64]=randint(121,-128,128) --arg Ua=u8[16,64]=randint(122,0,256)
// warpsmith: --arg Bt=i8[8,64]=randint(123,-128,128)
// warpsmith: --arg ss=out,i32[16,8] --arg us=out,i32[16,8] --arg short_ss=out,i32[16,8]

__device__ void store(int* C, const int (&c)[4])
{
    const int lane = threadIdx.x % 32, group = lane / 4, quad = lane % 4;
    *reinterpret_cast<int2*>(C + group * 8 + quad * 2) = make_int2(c[0], c[1]);
    *reinterpret_cast<int2*>(C + (group + 8) * 8 + quad * 2) = make_int2(c[2], c[3]);
}

extern "C" __global__ void mma_int8(const int* A, const int* Ua, const int* Bt, int* ss, int* us, int* short_ss)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = lane / 4, quad = lane % 4;
    const int lo = group * 16 + quad, hi = lo + 8 * 16;
    int c[4] = {0, 0, 0, 0};
    if (warp == 0) {
        for (int k = 0; k < 16; k += 8)
            asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
                         "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                         : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
                         : "r"(A[lo + k]), "r"(A[hi + k]), "r"(A[lo + k + 4]), "r"(A[hi + k + 4]),
                           "r"(Bt[lo + k]), "r"(Bt[lo + k + 4]));
        store(ss, c);
    } else if (warp == 1) {
        for (int k = 0; k < 16; k += 8)
            asm volatile("mma.sync.aligned.m16n8k32.row.col.satfinite.s32.u8.s8.s32 "
                         "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                         : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
                         : "r"(Ua[lo + k]), "r"(Ua[hi + k]), "r"(Ua[lo + k + 4]), "r"(Ua[hi + k + 4]),
                           "r"(Bt[lo + k]), "r"(Bt[lo + k + 4]));
        store(us, c);
    } else {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                     : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3]) : "r"(A[lo]), "r"(A[hi]), "r"(Bt[lo]));
        store(short_ss, c);
    }
}
