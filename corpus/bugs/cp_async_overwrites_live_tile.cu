// Multi-stage loop over tiles. The copy for the tile after next is issued before the block has finished reading that
// stage: the barrier at the end of the iteration is missing.
// warpsmith: --arch sm_80 --kernel window --grid 1 --block 128 --shared 0
// warpsmith: --arg in=f32[6,512]=normal(9) --arg out=out,f32[512] --arg tiles=i32=6

#include <cuda_pipeline_primitives.h>

extern "C" __global__ void window(const float* in, float* out, int tiles)
{
    __shared__ __align__(16) float stage[2][512];
    const int t = threadIdx.x;
    float acc[4] = {0.0f, 0.0f, 0.0f, 0.0f};

    for (int s = 0; s < 2; ++s) {
        __pipeline_memcpy_async(&stage[s][t * 4], in + s * 512 + t * 4, 16);
        __pipeline_commit();
    }
    for (int tile = 0; tile < tiles; ++tile) {
        __pipeline_wait_prior(1);
        __syncthreads();
        const float* s = stage[tile & 1];
        for (int k = 0; k < 4; ++k)
            acc[k] += s[(t + 128 * k + 64) & 511]; //~ race
        if (tile + 2 < tiles)
            __pipeline_memcpy_async(&stage[tile & 1][t * 4], in + (tile + 2) * 512 + t * 4, 16); //~| race
        __pipeline_commit();
    }
    for (int k = 0; k < 4; ++k)
        out[t + 128 * k] = acc[k];
}
