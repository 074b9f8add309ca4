// Hopper: the numbers that the other block stores asynchronously are read after a cluster barrier, which does not wait for
// such stores, and without a wait for the barrier object.
// warpsmith: --arch sm_90a --kernel swap --grid 2 --block 32 --shared 0
// warpsmith: --arg x=f32[64]=normal(1) --arg y=out,f32[64]

#include "../hopper.cuh"

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(32) swap(const float* x, float* y)
{
    __shared__ float given[32];
    __shared__ u64 full;
    const u32 other = cluster_rank() ^ 1;
    if (threadIdx.x == 0) {
        init(&full, 1);
        fence_init();
        expect(&full, 128);
    }
    arrive_cluster();
    wait_cluster();
    store_async(map_to(&given[threadIdx.x], other), x[32 * blockIdx.x + threadIdx.x], map_to(&full, other)); //~ race
    arrive_cluster();
    wait_cluster();
    y[32 * blockIdx.x + threadIdx.x] = given[threadIdx.x]; //~| race
}
