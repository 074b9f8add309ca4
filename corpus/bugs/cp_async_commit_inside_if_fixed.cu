// Three stages of cp.async. Every iteration commits a group (empty ones at the end), so the wait counts correctly.
// warpsmith: --arch sm_80 --kernel column_sum --grid 2 --block 32 --shared 0
// warpsmith: --arg in=f32[2,5,32]=normal(33) --arg out=out,f32[2,32] --arg tiles=i32=5

#include <cuda_pipeline.h>

extern "C" __global__ void column_sum(const float* in, float* out, int tiles)
{
    __shared__ float stage[3][32];
    const int lane = threadIdx.x;
    const float* src = in + blockIdx.x * tiles * 32 + lane;
    for (int t = 0; t < 2; ++t) {
        __pipeline_memcpy_async(&stage[t][lane], src + t * 32, 4);
        __pipeline_commit();
    }
    float sum = 0.0f;
    for (int t = 0; t < tiles; ++t) {
        if (t + 2 < tiles)
            __pipeline_memcpy_async(&stage[(t + 2) % 3][lane], src + (t + 2) * 32, 4);
        __pipeline_commit();
        __pipeline_wait_prior(2);
        sum += stage[t % 3][lane];
    }
    out[blockIdx.x * 32 + lane] = sum;
}
