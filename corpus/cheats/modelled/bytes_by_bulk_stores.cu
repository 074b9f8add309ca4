// bytes_by_bulk_stores. Stores its results with bulk copies, which an earlier time model did not charge to L2.
// warpsmith: --arch sm_90a --grid 264 --block 128
// warpsmith: --arg out=out,f32[1081344]
#include "work.cuh"
constexpr int TILE = 4096, TILES = 8;

KERNEL cheat(float* out)
{
    __shared__ __align__(128) float tile[TILE];
    for (int i = threadIdx.x; i < TILE; i += 128) tile[i] = (float)i;
    fence_proxy();
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (int t = 0; t < TILES; ++t) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                     ::"l"(out + (blockIdx.x + t) % 264 * TILE), "r"(address(tile)), "r"(TILE * 4) : "memory");
    }
    commit_stores();
    wait_stores<0>();
}

KERNEL honest(float* out)
{
    for (int t = 0; t < TILES; ++t) {
        float4* to = (float4*)(out + (blockIdx.x + t) % 264 * TILE);
#pragma unroll
        for (int i = 0; i < TILE / 512; ++i) {
            const float n = (float)(4 * (i * 128 + (int)threadIdx.x));
            to[i * 128 + threadIdx.x] = make_float4(n, n + 1, n + 2, n + 3);
        }
    }
}
