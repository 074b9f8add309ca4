// 4-bit weights, eight to a word, unpacked by shifts and masks, zero point 8, one scale per group of 32; one warp
// per row.
// Expected: y[r] = sum_k (q[r][k] - 8) scale[r][k / 32] x[k], q little-endian nibbles.
// warpsmith: --arch sm_80 --kernel gemv4 --grid 3 --block 128 --shared 0
// warpsmith: --arg q=u32[12,32]=randint(225,0,4294967296) --arg scale=f16[12,8]=uniform(226)
// warpsmith: --arg x=f16[256]=normal(227)
// warpsmith: --arg y=out,f32[12]

#include <cuda_fp16.h>

extern "C" __global__ void gemv4(const unsigned* q, const __half* scale, const __half* x, float* y)
{
    const int lane = threadIdx.x % 32, row = blockIdx.x * 4 + threadIdx.x / 32;
    const unsigned w = q[row * 32 + lane];
    const uint4 raw = *reinterpret_cast<const uint4*>(x + lane * 8);
    const __half2* v = reinterpret_cast<const __half2*>(&raw);
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const float2 f = __half22float2(v[k]);
        sum += (int)((w >> (8 * k)) & 15) * f.x - 8.0f * f.x;
        sum += (int)((w >> (8 * k + 4)) & 15) * f.y - 8.0f * f.y;
    }
    sum *= __half2float(scale[row * 8 + lane / 4]);
    for (int o = 16; o > 0; o >>= 1)
        sum += __shfl_down_sync(0xffffffffu, sum, o);
    if (lane == 0)
        y[row] = sum;
}
