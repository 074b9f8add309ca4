// Thread 0 issues the bulk store, thread 32 waits: bulk groups belong to the thread that committed them.
// warpsmith: --arch sm_90a --kernel scale --grid 1 --block 128 --shared 0
// warpsmith: --arg x=f32[256]=normal(1) --arg y=out,f32[256]
#include "../hopper.cuh"
extern "C" __global__ void __launch_bounds__(128) scale(const float* x, float* y) {
    __shared__ __align__(128) float tile[128];
    for (int s = 0; s < 2; ++s) {
        tile[threadIdx.x] = x[s * 128 + threadIdx.x] * 2; //~ async-not-waited
        fence_proxy();
        __syncthreads();
        if (threadIdx.x == 0) {
            asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 512;" ::"l"(y + s * 128), "r"(address(tile)) : "memory");
            commit_stores();
        }
        if (threadIdx.x == 32) wait_stores_read<0>();
        __syncthreads();
    }
    if (threadIdx.x == 0) wait_stores<0>();
}
