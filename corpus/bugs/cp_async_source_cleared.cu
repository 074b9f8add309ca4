// A tile is staged with cp.async, and its source is cleared for the next launch without a wait. The copy may not have
// read the source yet.
// warpsmith: --arch sm_80 --kernel drain --grid 2 --block 32 --shared 0
// warpsmith: --arg queue=inout,f32[2,128]=normal(3) --arg y=out,f32[2,128]

#include <cuda_pipeline_primitives.h>

extern "C" __global__ void drain(float* queue, float* y)
{
    __shared__ __align__(16) float tile[128];
    const int lane = threadIdx.x;
    float4* mine = reinterpret_cast<float4*>(queue + blockIdx.x * 128) + lane;
    __pipeline_memcpy_async(&tile[lane * 4], mine, 16); //~ race
    __pipeline_commit();
    *mine = make_float4(0.0f, 0.0f, 0.0f, 0.0f); //~| race //~| async-not-waited
    __pipeline_wait_prior(0);
    __syncwarp();
    for (int k = 0; k < 4; ++k)
        y[blockIdx.x * 128 + k * 32 + lane] = tile[k * 32 + 31 - lane];
}
