// Embedding lookup with 64-bit indices, f16 rows read as 8-byte words, padding index -1 gives zeros, summed per bag
// of 3.
// Expected: out[b] = the sum of the bag's rows in f32.
// warpsmith: --arch sm_80 --kernel gather --grid 5 --block 16 --shared 0
// warpsmith: --arg index=i64[5,3]=randint(233,-1,20) --arg table=f16[20,64]=normal(234) --arg out=out,f32[5,64]

#include <cuda_fp16.h>

extern "C" __global__ void gather(const long long* index, const __half* table, float4* out)
{
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (int k = 0; k < 3; ++k) {
        const long long row = index[blockIdx.x * 3 + k];
        if (row < 0)
            continue;
        const uint2 raw = reinterpret_cast<const uint2*>(table + row * 64)[threadIdx.x];
        const float2 lo = __half22float2(*reinterpret_cast<const __half2*>(&raw.x));
        const float2 hi = __half22float2(*reinterpret_cast<const __half2*>(&raw.y));
        sum.x += lo.x;
        sum.y += lo.y;
        sum.z += hi.x;
        sum.w += hi.y;
    }
    out[blockIdx.x * 16 + threadIdx.x] = sum;
}
