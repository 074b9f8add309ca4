// Hopper: a block arrives at the other block's mbarrier object, which may not be initialised yet.
// warpsmith: --arch sm_90a --kernel swap --grid 2 --block 32 --shared 0
// warpsmith: --arg x=f32[64]=normal(1) --arg y=out,f32[64]

#include "../hopper.cuh"

// Each block of a cluster of two stores its numbers in the other block and arrives at its barrier object.
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(32) swap(const float* x, float* y) //~? unwritten-output
{
    __shared__ float given[32];
    __shared__ u64 full;
    const u32 other = cluster_rank() ^ 1;
    if (threadIdx.x == 0) {
        init(&full, 32); //~ race
        fence_init();
    }
    __syncthreads();
    store_remote(map_to(&given[threadIdx.x], other), x[32 * blockIdx.x + threadIdx.x]); //~? race
    arrive_remote(map_to(&full, other)); //~| race //~? uninitialised
    wait(&full, 0); //~? deadlock
    y[32 * blockIdx.x + threadIdx.x] = given[threadIdx.x];
    arrive_cluster();
    wait_cluster(); //~? deadlock
}
