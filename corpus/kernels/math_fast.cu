// The hardware approximations (__expf, __logf, __sinf, __cosf, __fdividef, rsqrtf, tanh.approx) and the intrinsics
// with a directed rounding.
// Expected: approximations within the CUDA guide's bounds; the directed roundings exactly.
// warpsmith: --arch sm_80 --kernel math_fast --grid 1 --block 128 --shared 0
// warpsmith: --arg x=f32[128]=normal(145) --arg y=f32[128]=uniform(146) --arg out=out,f32[128,8]
// warpsmith: --arg dir=out,f32[128,8]

extern "C" __global__ void math_fast(const float* x, const float* y, float* out, float* dir)
{
    const int i = threadIdx.x;
    const float a = x[i], b = y[i] + 0.5f;
    float* o = out + i * 8;
    o[0] = __expf(a);
    o[1] = __logf(b);
    o[2] = __sinf(a);
    o[3] = __cosf(a);
    o[4] = __fdividef(a, b);
    o[5] = rsqrtf(b);
    asm("tanh.approx.f32 %0, %1;" : "=f"(o[6]) : "f"(a));
    o[7] = __powf(b, 2.5f);
    float* d = dir + i * 8;
    d[0] = __fadd_ru(a, b);
    d[1] = __fadd_rd(a, b);
    d[2] = __fmul_rz(a, b);
    d[3] = __fdiv_rn(a, b);
    d[4] = __fsqrt_ru(b);
    d[5] = __frcp_rn(b);
    d[6] = __fmaf_rd(a, b, a);
    d[7] = __saturatef(a);
}
