// The wait and the barrier come before the first use of the tile.
// warpsmith: --arch sm_80 --kernel dot_rows --grid 2 --block 128 --shared 0
// warpsmith: --arg a=f32[2,512]=normal(3) --arg b=f32[2,512]=normal(4) --arg out=out,f32[2]

#include <cuda_pipeline_primitives.h>

extern "C" __global__ void dot_rows(const float* a, const float* b, float* out)
{
    __shared__ __align__(16) float sa[512], sb[512];
    __shared__ float partial[4];
    const int t = threadIdx.x, base = blockIdx.x * 512;
    __pipeline_memcpy_async(sa + t * 4, a + base + t * 4, 16);
    __pipeline_memcpy_async(sb + t * 4, b + base + t * 4, 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();

    float sum = 0.0f;
    for (int i = t; i < 512; i += 128)
        sum += sa[i] * sb[i];
    for (int o = 16; o > 0; o >>= 1)
        sum += __shfl_xor_sync(0xffffffffu, sum, o);
    if (t % 32 == 0)
        partial[t / 32] = sum;
    __syncthreads();
    if (t == 0)
        out[blockIdx.x] = partial[0] + partial[1] + partial[2] + partial[3];
}
