// 256-bit addition and the full 128 x 128 product with carry chains (add.cc, addc, mad.lo.cc, madc.hi).
// Expected: exact.
// warpsmith: --arch sm_80 --kernel bignum --grid 1 --block 32 --shared 0
// warpsmith: --arg a=u32[32,8]=randint(205,0,4294967296) --arg b=u32[32,8]=randint(206,0,4294967296)
// warpsmith: --arg sum=out,u32[32,9] --arg product=out,u32[32,8]

extern "C" __global__ void bignum(const unsigned* a, const unsigned* b, unsigned* sum, unsigned* product)
{
    const unsigned* x = a + threadIdx.x * 8;
    const unsigned* y = b + threadIdx.x * 8;
    unsigned s[9];
    asm("add.cc.u32 %0, %9, %17;\n\t"
        "addc.cc.u32 %1, %10, %18;\n\t"
        "addc.cc.u32 %2, %11, %19;\n\t"
        "addc.cc.u32 %3, %12, %20;\n\t"
        "addc.cc.u32 %4, %13, %21;\n\t"
        "addc.cc.u32 %5, %14, %22;\n\t"
        "addc.cc.u32 %6, %15, %23;\n\t"
        "addc.cc.u32 %7, %16, %24;\n\t"
        "addc.u32 %8, 0, 0;"
        : "=&r"(s[0]), "=&r"(s[1]), "=&r"(s[2]), "=&r"(s[3]), "=&r"(s[4]), "=&r"(s[5]), "=&r"(s[6]), "=&r"(s[7]),
          "=&r"(s[8])
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(x[4]), "r"(x[5]), "r"(x[6]), "r"(x[7]),
          "r"(y[0]), "r"(y[1]), "r"(y[2]), "r"(y[3]), "r"(y[4]), "r"(y[5]), "r"(y[6]), "r"(y[7]));
    for (int k = 0; k < 9; ++k)
        sum[threadIdx.x * 9 + k] = s[k];

    unsigned p[8] = {};
    for (int i = 0; i < 4; ++i) {
        asm("mad.lo.cc.u32 %0, %5, %6, %0;\n\t"
            "madc.lo.cc.u32 %1, %5, %7, %1;\n\t"
            "madc.lo.cc.u32 %2, %5, %8, %2;\n\t"
            "madc.lo.cc.u32 %3, %5, %9, %3;\n\t"
            "addc.u32 %4, %4, 0;\n\t"
            "mad.hi.cc.u32 %1, %5, %6, %1;\n\t"
            "madc.hi.cc.u32 %2, %5, %7, %2;\n\t"
            "madc.hi.cc.u32 %3, %5, %8, %3;\n\t"
            "madc.hi.u32 %4, %5, %9, %4;"
            : "+r"(p[i]), "+r"(p[i + 1]), "+r"(p[i + 2]), "+r"(p[i + 3]), "+r"(p[i + 4])
            : "r"(x[i]), "r"(y[0]), "r"(y[1]), "r"(y[2]), "r"(y[3]));
    }
    for (int k = 0; k < 8; ++k)
        product[threadIdx.x * 8 + k] = p[k];
}
