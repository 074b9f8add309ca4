// Hopper: a block reads its sums before the other block has certainly added to them.
// warpsmith: --arch sm_90a --kernel sums --grid 2 --block 32 --shared 0
// warpsmith: --arg x=f32[64]=normal(1) --arg y=out,f32[32]

#include "../hopper.cuh"

// The second block of a cluster adds its numbers to those of the first.
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(32) sums(const float* x, float* y)
{
    __shared__ float sum[32];
    sum[threadIdx.x] = x[32 * blockIdx.x + threadIdx.x];
    arrive_cluster();
    wait_cluster();
    if (cluster_rank() == 1)
        add_remote(map_to(&sum[threadIdx.x], 0), sum[threadIdx.x]);
    arrive_cluster();
    wait_cluster();
    if (cluster_rank() == 0)
        y[threadIdx.x] = sum[threadIdx.x];
    arrive_cluster();
    wait_cluster();
}
