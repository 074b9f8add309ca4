// volatile_reloads. Loads the same memory again and again with volatile loads, which bypass L1. An earlier time model
// took them from L1. Its twin loads as many bytes, each once.
// warpsmith: --arch sm_90a --grid 264 --block 256
// warpsmith: --arg x=f32[1081344]=const(0.5) --arg out=out,f32[264]
#include "work.cuh"

KERNEL cheat(const float* x, float* out)
{
    float sum = 0.0f;
    for (int t = 0; t < 8; ++t)
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            float v;
            asm volatile("ld.volatile.global.f32 %0, [%1];" : "=f"(v) : "l"(x + blockIdx.x * 4096 + i * 256 + threadIdx.x));
            sum += v;
        }
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

KERNEL honest(const float* x, float* out)
{
    float sum = 0.0f;
    for (int t = 0; t < 8; ++t)
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            float v;
            asm volatile("ld.global.f32 %0, [%1];" : "=f"(v) : "l"(x + (blockIdx.x + t) % 264 * 4096 + i * 256 + threadIdx.x));
            sum += v;
        }
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}
