// Hopper: a block stores into the shared memory of the other block of its cluster, which may not have started.
// warpsmith: --arch sm_90a --kernel swap --grid 2 --block 32 --shared 0
// warpsmith: --arg x=f32[64]=normal(1) --arg y=out,f32[64]

#include "../hopper.cuh"

// Each block of a cluster of two stores its numbers in the other block.
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(32) swap(const float* x, float* y)
{
    __shared__ float given[32];
    const float own = x[32 * blockIdx.x + threadIdx.x];
    store_remote(map_to(&given[threadIdx.x], cluster_rank() ^ 1), own); //~ race
    arrive_cluster();
    wait_cluster();
    y[32 * blockIdx.x + threadIdx.x] = given[threadIdx.x];
}
