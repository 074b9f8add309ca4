// RMSNorm with a row in registers, eight elements per load. The guard of the last vector allows one too many: it belongs to
// the next row, and after the last row it is outside the tensor.
// warpsmith: --arch sm_80 --kernel rmsnorm --grid 3 --block 64 --shared 0
// warpsmith: --arg x=f16[3,1000]=normal(3) --arg y=out,f16[3,1000] --arg cols=i32=1000

#include <cuda_fp16.h>

constexpr int THREADS = 64, VECTORS = 2;

__device__ float lane_sum(float x, int width)
{
    for (int distance = width / 2; distance > 0; distance /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, distance);
    return x;
}

extern "C" __global__ void rmsnorm(const __half* x, __half* y, int cols)
{
    __shared__ float partials[THREADS / 32];
    const int t = threadIdx.x, vectors = cols / 8;
    const uint4* from = reinterpret_cast<const uint4*>(x + blockIdx.x * cols);
    uint4* to = reinterpret_cast<uint4*>(y + blockIdx.x * cols);
    __half2 kept[VECTORS][4] = {};
    float squares = 0.0f;
    for (int i = 0; i < VECTORS; ++i) {
        const int vector = t + i * THREADS;
        if (vector <= vectors)
            *reinterpret_cast<uint4*>(kept[i]) = from[vector]; //~ out-of-bounds
        for (int j = 0; j < 4; ++j) {
            const float2 pair = __half22float2(kept[i][j]);
            squares += pair.x * pair.x + pair.y * pair.y;
        }
    }
    squares = lane_sum(squares, 32);
    if (t % 32 == 0)
        partials[t / 32] = squares;
    __syncthreads();
    const __half2 factor = __float2half2_rn(rsqrtf((partials[0] + partials[1]) / cols + 1e-5f));
    for (int i = 0; i < VECTORS; ++i) {
        for (int j = 0; j < 4; ++j)
            kept[i][j] = __hmul2(kept[i][j], factor);
        if (t + i * THREADS < vectors)
            to[t + i * THREADS] = *reinterpret_cast<uint4*>(kept[i]); //~? uninitialised
    }
}
