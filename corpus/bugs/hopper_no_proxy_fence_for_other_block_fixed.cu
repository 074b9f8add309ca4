// The fixed twin of hopper_no_proxy_fence_for_other_block.cu.
// warpsmith: --arch sm_90a --kernel pass --grid 2 --block 128 --shared 0
// warpsmith: --arg x=f32[128]=normal(1) --arg given=scratch,f32[128] --arg flag=inout,i32[1]=zeros --arg y=out,f32[128]

#include "../hopper.cuh"

// Block 0 passes its numbers to block 1.
extern "C" __global__ void __launch_bounds__(128) pass(const float* x, float* given, int* flag, float* y)
{
    __shared__ __align__(128) float tile[128];
    __shared__ u64 full;
    if (blockIdx.x == 0) {
        given[threadIdx.x] = 2 * x[threadIdx.x];
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            atomicExch(flag, 1);
        }
        return;
    }
    if (threadIdx.x == 0) {
        init(&full, 1);
        fence_init();
        while (atomicAdd(flag, 0) == 0) {
        }
        __threadfence();
        fence_proxy_global();
        expect(&full, 512);
        load_bytes(tile, given, 512, &full);
    }
    __syncthreads();
    wait(&full, 0);
    y[threadIdx.x] = tile[127 - threadIdx.x];
}
