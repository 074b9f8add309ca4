// The fixed twin of hopper_no_proxy_fence_before_load.cu.
// warpsmith: --arch sm_90a --kernel reverse --grid 1 --block 128 --shared 0
// warpsmith: --arg x=f32[128]=normal(1) --arg y=out,f32[128]

#include "../hopper.cuh"

// Reverses x.
extern "C" __global__ void __launch_bounds__(128) reverse(const float* x, float* y)
{
    __shared__ __align__(128) float tile[128];
    __shared__ u64 full;
    if (threadIdx.x == 0) {
        init(&full, 1);
        fence_init();
    }
    tile[threadIdx.x] = 0;
    fence_proxy();
    __syncthreads();
    if (threadIdx.x == 0) {
        expect(&full, 512);
        load_bytes(tile, x, 512, &full);
    }
    wait(&full, 0);
    y[threadIdx.x] = tile[127 - threadIdx.x];
}
