// A tile is copied with cp.async and committed, but no thread waits for it before the barrier. The barrier orders
// threads, not copies in flight.
// warpsmith: --arch sm_80 --kernel tile_sum --grid 2 --block 64 --shared 0
// warpsmith: --arg in=f32[4,256]=normal(3) --arg out=out,f32[4]

#include <cuda_pipeline_primitives.h>

extern "C" __global__ void tile_sum(const float* in, float* out)
{
    __shared__ __align__(16) float tile[2][256];
    const int t = threadIdx.x;
    const float* src = in + blockIdx.x * 512;
    for (int r = 0; r < 2; ++r)
        __pipeline_memcpy_async(&tile[r][t * 4], src + r * 256 + t * 4, 16);
    __pipeline_commit();
    __syncthreads();

    const int row = t / 32, lane = t % 32;
    float sum = 0.0f;
    for (int c = lane; c < 256; c += 32)
        sum += tile[row][c]; //~ async-not-waited
    for (int o = 16; o > 0; o >>= 1)
        sum += __shfl_xor_sync(0xffffffffu, sum, o);
    if (lane == 0)
        out[blockIdx.x * 2 + row] = sum; //~? uninitialised
}
