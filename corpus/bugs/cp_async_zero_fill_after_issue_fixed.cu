// Only the padding of the tile is cleared.
// warpsmith: --arch sm_80 --kernel padded --grid 1 --block 64 --shared 0
// warpsmith: --arg x=f32[12,16]=normal(3) --arg y=out,f32[16,16] --arg rows=i32=12

#include <cuda_pipeline_primitives.h>

extern "C" __global__ void padded(const float* x, float* y, int rows)
{
    __shared__ __align__(16) float tile[16][16];
    const int t = threadIdx.x, r = t / 4, c = t % 4 * 4;
    if (r < rows)
        __pipeline_memcpy_async(&tile[r][c], x + r * 16 + c, 16);
    __pipeline_commit();
    if (r >= rows)
        for (int k = 0; k < 4; ++k)
            tile[r][c + k] = 0.0f;
    __pipeline_wait_prior(0);
    __syncthreads();
    for (int i = t; i < 256; i += 64)
        y[i] = tile[i % 16][i / 16];
}
