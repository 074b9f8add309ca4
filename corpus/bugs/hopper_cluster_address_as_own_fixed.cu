// The fixed twin of hopper_cluster_address_as_own.cu.
// warpsmith: --arch sm_90a --kernel give --grid 2 --block 32 --shared 0
// warpsmith: --arg x=f32[64]=normal(1) --arg y=out,f32[64]

#include "../hopper.cuh"

// Each block of a cluster of two writes its numbers into the shared memory of the other.
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(32) give(const float* x, float* y)
{
    __shared__ float given[32];
    given[threadIdx.x] = 0;
    arrive_cluster();
    wait_cluster();
    const u32 to = map_to(&given[threadIdx.x], cluster_rank() ^ 1);
    const float number = x[32 * blockIdx.x + threadIdx.x];
    store_remote(to, number);
    arrive_cluster();
    wait_cluster();
    y[32 * blockIdx.x + threadIdx.x] = given[threadIdx.x];
}
