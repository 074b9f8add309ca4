// The barrier comes before the wait. Each thread then waits only for its own copies and continues, although copies of
// other threads may not be complete.
// warpsmith: --arch sm_80 --kernel rotate --grid 2 --block 64 --shared 0
// warpsmith: --arg in=f32[2,256]=normal(3) --arg out=out,f32[2,256]

#include <cuda_pipeline_primitives.h>

extern "C" __global__ void rotate(const float* in, float* out)
{
    __shared__ __align__(16) float tile[256];
    const int t = threadIdx.x, base = blockIdx.x * 256;
    __pipeline_memcpy_async(&tile[t * 4], in + base + t * 4, 16); //~ race
    __pipeline_commit();
    __syncthreads();
    __pipeline_wait_prior(0);
    for (int k = 0; k < 4; ++k)
        out[base + k * 64 + t] = tile[(k * 64 + t + 100) & 255]; //~| race //~| async-not-waited //~? uninitialised
}
