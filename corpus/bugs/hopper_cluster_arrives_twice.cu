// Hopper: threads arrive at the cluster barrier twice before they wait for it.
// warpsmith: --arch sm_90a --kernel swap --grid 2 --block 32 --shared 0
// warpsmith: --arg x=f32[64]=normal(1) --arg y=out,f32[64]

#include "../hopper.cuh"

// Each block of a cluster of two reads the numbers of the other block.
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(32) swap(const float* x, float* y)
{
    __shared__ float given[32];
    given[threadIdx.x] = x[32 * blockIdx.x + threadIdx.x];
    arrive_cluster();
    arrive_cluster(); //~ barrier-count
    wait_cluster();
    y[32 * blockIdx.x + threadIdx.x] = load_remote(map_to(&given[threadIdx.x], cluster_rank() ^ 1));
    arrive_cluster();
    wait_cluster();
}
