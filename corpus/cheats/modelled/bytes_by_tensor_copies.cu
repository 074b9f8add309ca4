// bytes_by_tensor_copies. Loads its tiles with tensor copies, which an earlier time model did not charge to L2.
// warpsmith: --arch sm_90a --grid 264 --block 128
// warpsmith: --arg map=tensor,x[64,64]=plain --arg x=f32[8448,64]=uniform(1) --arg out=out,f32[264]
#include "work.cuh"
constexpr int ROWS = 64, TILES = 8;

KERNEL cheat(const __grid_constant__ TensorMap map, const float* x, float* out)
{
    __shared__ __align__(128) float tile[ROWS * 64];
    __shared__ u64 bar;
    init_once(&bar, 1);
    float sum = 0.0f;
    for (int t = 0; t < TILES; ++t) {
        if (threadIdx.x == 0) {
            expect(&bar, ROWS * 64 * 4);
            load(tile, &map, 0, (blockIdx.x * TILES + t) % 132 * ROWS, &bar);
        }
        wait(&bar, t & 1);
        sum += tile[t];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

KERNEL honest(const __grid_constant__ TensorMap map, const float* x, float* out)
{
    __shared__ __align__(128) float4 tile[ROWS * 16];
    float sum = 0.0f;
    for (int t = 0; t < TILES; ++t) {
        const float4* from = (const float4*)(x + (blockIdx.x * TILES + t) % 132 * ROWS * 64);
        float4 v[ROWS / 8];
#pragma unroll
        for (int i = 0; i < ROWS / 8; ++i) v[i] = from[i * 128 + threadIdx.x];
#pragma unroll
        for (int i = 0; i < ROWS / 8; ++i) tile[i * 128 + threadIdx.x] = v[i];
        __syncthreads();
        sum += ((const float*)tile)[t];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}
