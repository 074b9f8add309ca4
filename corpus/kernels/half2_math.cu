// f16x2 arithmetic: fma, min, max, comparison masks, exp2, reciprocal, absolute value, conversions with rounding.
// Expected: each column within one f16 rounding of the f64 value; the first four exactly rounded.
// warpsmith: --arch sm_80 --kernel half2_math --grid 1 --block 64 --shared 0
// warpsmith: --arg x=f16[128]=normal(176) --arg y=f16[128]=uniform(177) --arg out=out,f16[8,128]

#include <cuda_fp16.h>

extern "C" __global__ void half2_math(const __half2* x, const __half2* y, __half2* out)
{
    const int i = threadIdx.x;
    const __half2 a = x[i], b = y[i], one = __float2half2_rn(1.0f);
    out[i] = __hfma2(a, b, one);
    out[64 + i] = __hadd2(a, b);
    out[128 + i] = __hmul2(a, b);
    out[192 + i] = __hmax2(__hneg2(a), b);
    out[256 + i] = __hge2(a, b);
    out[320 + i] = h2exp2(a);
    out[384 + i] = h2rcp(__hadd2(b, one));
    out[448 + i] = __h2div(__habs2(a), __hadd2(b, one));
}
