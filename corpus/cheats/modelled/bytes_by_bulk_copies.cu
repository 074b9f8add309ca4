// bytes_by_bulk_copies. Loads its tiles with bulk copies, which an earlier time model did not charge to L2.
// warpsmith: --arch sm_90a --grid 264 --block 128
// warpsmith: --arg x=f32[540672]=uniform(1) --arg out=out,f32[264]
#include "work.cuh"
constexpr int TILE = 4096, TILES = 8;

KERNEL cheat(const float* x, float* out)
{
    __shared__ __align__(128) float tile[TILE];
    __shared__ u64 bar;
    init_once(&bar, 1);
    float sum = 0.0f;
    for (int t = 0; t < TILES; ++t) {
        if (threadIdx.x == 0) {
            expect(&bar, TILE * 4);
            load_bytes(tile, x + (blockIdx.x * TILES + t) % 132 * TILE, TILE * 4, &bar);
        }
        wait(&bar, t & 1);
        sum += tile[t];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

KERNEL honest(const float* x, float* out)
{
    __shared__ __align__(128) float4 tile[TILE / 4];
    float sum = 0.0f;
    for (int t = 0; t < TILES; ++t) {
        const float4* from = (const float4*)(x + (blockIdx.x * TILES + t) % 132 * TILE);
        float4 v[TILE / 512];
#pragma unroll
        for (int i = 0; i < TILE / 512; ++i) v[i] = from[i * 128 + threadIdx.x];
#pragma unroll
        for (int i = 0; i < TILE / 512; ++i) tile[i * 128 + threadIdx.x] = v[i];
        __syncthreads();
        sum += ((const float*)tile)[t];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}
