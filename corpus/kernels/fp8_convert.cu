// Conversions through FP8: f32 to e4m3 and e5m2 (saturating, two at a time), back to f16 and f32, and bf16 and f16
// rounding.
// Expected: bit-exact round to nearest even, saturated to the largest finite value.
// warpsmith: --arch sm_89 --kernel convert --grid 2 --block 64 --shared 0
// warpsmith: --arg x=f32[256]=normal(221) --arg gain=f32=90 --arg q4=out,e4m3[256] --arg q5=out,e5m2[256]
// warpsmith: --arg back4=out,f32[256] --arg back5=out,f32[256] --arg half=out,f16[256] --arg brain=out,bf16[256]

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

extern "C" __global__ void convert(const float2* x, float gain, __nv_fp8x2_e4m3* q4, __nv_fp8x2_e5m2* q5, float2* back4,
                                   float2* back5, __half2* half, __nv_bfloat162* brain)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float2 v = make_float2(x[i].x * x[i].x * x[i].x * gain, x[i].y * gain);
    const __nv_fp8x2_e4m3 a(v);
    const __nv_fp8x2_e5m2 b(v);
    q4[i] = a;
    q5[i] = b;
    back4[i] = static_cast<float2>(a);
    back5[i] = static_cast<float2>(b);
    half[i] = __float22half2_rn(v);
    brain[i] = __float22bfloat162_rn(v);
}
