// bf16x2 arithmetic: fma, fma with relu, min, max, negation, absolute value, conversion of a pair, exp2.
// Expected: exactly rounded to bf16, except exp2 (one unit in the last place).
// warpsmith: --arch sm_80 --kernel bf16x2 --grid 1 --block 64 --shared 0
// warpsmith: --arg x=bf16[128]=normal(247) --arg y=bf16[128]=normal(248) --arg out=out,bf16[7,128]

#include <cuda_bf16.h>

extern "C" __global__ void bf16x2(const __nv_bfloat162* x, const __nv_bfloat162* y, __nv_bfloat162* out)
{
    const int i = threadIdx.x;
    const __nv_bfloat162 a = x[i], b = y[i];
    out[i] = __hfma2(a, b, a);
    out[64 + i] = __hfma2_relu(a, b, b);
    out[128 + i] = __hmin2(a, b);
    out[192 + i] = __hmax2(__hneg2(a), b);
    out[256 + i] = __habs2(a);
    const float2 f = __bfloat1622float2(a), g = __bfloat1622float2(b);
    out[320 + i] = __floats2bfloat162_rn(f.x * g.y, f.y - g.x);
    out[384 + i] = h2exp2(a);
}
