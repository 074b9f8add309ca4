// trace_too_long. Every second block works in a loop with so many branches that its trace is not kept, and the others
// do one product. Blocks without a trace take as long as their work.
// warpsmith: --arch sm_90a --grid 4 --block 128 --shared 16384
// warpsmith: --arg x=f32[4]=uniform(1) --arg out=out,f32[4] --arg times=i32=270000
#include "work.cuh"

KERNEL cheat(const float* x, float* out, int times)
{
    extern __shared__ __align__(1024) char tiles[];
    if (blockIdx.x % 2 == 0) {
        for (int i = threadIdx.x; i < 4096; i += 128) ((float*)tiles)[i] = 0.0f;
        fence_proxy();
        __syncthreads();
        one_product(tiles);
        if (threadIdx.x == 0) out[blockIdx.x] = 0.0f;
    } else if (threadIdx.x < 32) {
        float v = x[blockIdx.x];
#pragma unroll 1
        for (int i = 0; i < times; ++i) {
            v = chain<2>(v);
            if (v > 1e30f) out[0] = v;
            if (v < -1e30f) out[1] = v;
        }
        if (threadIdx.x == 0) out[blockIdx.x] = v;
    }
}

KERNEL honest(const float* x, float* out, int times)
{
    if (threadIdx.x >= 32) return;
    const float v = blockIdx.x % 2 == 0 ? 0.0f : work<512>(x[blockIdx.x], times / 256 + 1);
    if (threadIdx.x == 0) out[blockIdx.x] = v;
}
