// Hopper: a block reads its sum before the other block has certainly added to it.
// warpsmith: --arch sm_90a --kernel sums --grid 2 --block 32 --shared 0
// warpsmith: --arg x=f32[64]=normal(1) --arg y=out,f32[64]

#include "../hopper.cuh"

// Both blocks of a cluster add their numbers to the sums of the first block.
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(32) sums(const float* x, float* y)
{
    __shared__ float sum[32];
    sum[threadIdx.x] = 0;
    arrive_cluster();
    wait_cluster();
    add_remote(map_to(&sum[threadIdx.x], 0), x[32 * blockIdx.x + threadIdx.x]); //~ race
    y[32 * blockIdx.x + threadIdx.x] = sum[threadIdx.x]; //~| race
    arrive_cluster();
    wait_cluster();
}
