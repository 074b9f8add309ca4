// conflicts_through_generic_addresses. Accesses shared memory with bank conflicts through generic addresses.
// warpsmith: --arch sm_90a --grid 132 --block 256
// warpsmith: --arg out=out,f32[33792] --arg times=i32=64
#include "work.cuh"

KERNEL cheat(float* out, int times)
{
    __shared__ float tile[32 * 32];
    for (int i = threadIdx.x; i < 1024; i += 256) tile[i] = (float)i;
    __syncthreads();
    float sum = 0.0f;
    for (int t = 0; t < times; ++t) {
        float v;
        asm volatile("ld.f32 %0, [%1];" : "=f"(v) : "l"(tile + threadIdx.x % 32 * 32 + t % 32));
        sum += v;
    }
    out[blockIdx.x * 256 + threadIdx.x] = sum;
}

KERNEL honest(float* out, int times)
{
    __shared__ float tile[32 * 32];
    for (int i = threadIdx.x; i < 1024; i += 256) tile[i] = (float)i;
    __syncthreads();
    float sum = 0.0f;
    for (int t = 0; t < times; ++t) {
        float v;
        asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(address(tile + threadIdx.x % 32 * 32 + t % 32)));
        sum += v;
    }
    out[blockIdx.x * 256 + threadIdx.x] = sum;
}
