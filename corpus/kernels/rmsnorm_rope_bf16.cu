// RMS normalisation followed by rotary embedding, bf16 in and out, one row per block, sincosf for the angles.
// Expected: y = rope(x / sqrt(mean(x^2) + 1e-6) * w, position = row), pairs (2k, 2k + 1), frequency 10000^(-2k/64).
// warpsmith: --arch sm_80 --kernel norm_rope --grid 6 --block 32 --shared 0
// warpsmith: --arg x=bf16[6,64]=normal(222) --arg w=bf16[64]=uniform(223) --arg y=out,bf16[6,64]

#include <cuda_bf16.h>

extern "C" __global__ void norm_rope(const __nv_bfloat162* x, const __nv_bfloat162* w, __nv_bfloat162* y)
{
    const int lane = threadIdx.x, row = blockIdx.x;
    const float2 v = __bfloat1622float2(x[row * 32 + lane]);
    float square = v.x * v.x + v.y * v.y;
    for (int o = 16; o > 0; o >>= 1)
        square += __shfl_xor_sync(0xffffffffu, square, o);
    const float scale = rsqrtf(square / 64.0f + 1.0e-6f);
    const float2 g = __bfloat1622float2(w[lane]);
    const float a = v.x * scale * g.x, b = v.y * scale * g.y;
    float sn, cs;
    sincosf(row * powf(10000.0f, -2.0f * lane / 64.0f), &sn, &cs);
    y[row * 32 + lane] = __floats2bfloat162_rn(a * cs - b * sn, a * sn + b * cs);
}
