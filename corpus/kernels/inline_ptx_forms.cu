// Instructions that compilers rarely generate but people write: lop3, slct, cnot, testp, bfind, dp2a, red, isspacep,
// vote.uni, prmt modes, sub.cc, mad24, set, exit.
// Expected: out as computed below, acc[0] = the sum of all x; odd threads past 32 leave early by exit.
// warpsmith: --arch sm_80 --kernel forms --grid 1 --block 64 --shared 0
// warpsmith: --arg x=u32[64]=randint(241,0,4294967296) --arg y=f32[64]=normal(242) --arg out=inout,u32[64,10]=zeros
// warpsmith: --arg acc=inout,u32[1]=zeros

extern "C" __global__ void forms(const unsigned* x, const float* y, unsigned* out, unsigned* acc)
{
    __shared__ unsigned word;
    const unsigned t = threadIdx.x, a = x[t], b = x[t ^ 1], c = x[t ^ 2];
    const float f = y[t];
    asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(acc), "r"(a) : "memory");
    asm volatile("{ .reg .pred p; setp.eq.u32 p, %0, 1; @p exit; }" ::"r"((t & 1) & (t >> 5)));
    unsigned* o = out + t * 10;
    asm("lop3.b32 %0, %1, %2, %3, 0xe8;" : "=r"(o[0]) : "r"(a), "r"(b), "r"(c)); // majority
    asm("slct.u32.s32 %0, %1, %2, %3;" : "=r"(o[1]) : "r"(a), "r"(b), "r"((int)c));
    asm("cnot.b32 %0, %1;" : "=r"(o[2]) : "r"(a & 7));
    asm("{ .reg .pred p; testp.subnormal.f32 p, %1; selp.u32 %0, 1, 2, p; }" : "=r"(o[3]) : "f"(f * 1e-38f));
    asm("bfind.u32 %0, %1;" : "=r"(o[4]) : "r"(a >> (b & 31)));
    asm("dp2a.lo.s32.u32 %0, %1, %2, %3;" : "=r"(o[5]) : "r"(a), "r"(b), "r"(c));
    asm("prmt.b32.f4e %0, %1, %2, %3;" : "=r"(o[6]) : "r"(a), "r"(b), "r"(c & 3));
    asm("{ .reg .u32 hi; sub.cc.u32 %0, %1, %2; subc.u32 hi, %2, %1; xor.b32 %0, %0, hi; }"
        : "=&r"(o[7]) : "r"(a), "r"(b));
    asm("set.gt.u32.f32 %0, %1, 0f3F000000;" : "=r"(o[8]) : "f"(f));
    const bool shared = __isShared(&word), global = __isGlobal(acc), constant = __isConstant(o);
    o[9] = shared | global << 1 | constant << 2;
}
