// A jump table written as PTX (brx.idx), with lanes of a warp that take different entries.
// Expected: out[i] = 3 x, x - 7, x^2, or -x by key 0..3.
// warpsmith: --arch sm_80 --kernel branch_table --grid 1 --block 64 --shared 0
// warpsmith: --arg key=u32[64]=randint(191,0,4) --arg x=i32[64]=randint(192,-100,100) --arg out=out,i32[64]

extern "C" __global__ void branch_table(const unsigned* key, const int* x, int* out)
{
    int r;
    asm volatile("{\n\t"
                 "targets: .branchtargets triple, less, square, negate;\n\t"
                 "brx.idx %1, targets;\n"
                 "triple:\n\tmul.lo.s32 %0, %2, 3;\n\tbra done;\n"
                 "less:\n\tsub.s32 %0, %2, 7;\n\tbra done;\n"
                 "square:\n\tmul.lo.s32 %0, %2, %2;\n\tbra done;\n"
                 "negate:\n\tneg.s32 %0, %2;\n"
                 "done:\n\t"
                 "}"
                 : "=r"(r) : "r"(key[threadIdx.x]), "r"(x[threadIdx.x]));
    out[threadIdx.x] = r;
}
