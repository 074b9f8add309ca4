// Hopper: in the second round a block overwrites its number while the other block may still read that of the first.
// warpsmith: --arch sm_90a --kernel rounds --grid 2 --block 32 --shared 0
// warpsmith: --arg x=f32[64]=normal(1) --arg y=out,f32[64]

#include "../hopper.cuh"

// Each block adds the numbers that the other block has in two rounds.
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(32) rounds(const float* x, float* y)
{
    __shared__ float given[32];
    float sum = 0;
    for (int round = 0; round < 2; ++round) {
        given[threadIdx.x] = (round + 1) * x[32 * blockIdx.x + threadIdx.x];
        arrive_cluster();
        wait_cluster();
        sum += load_remote(map_to(&given[threadIdx.x], cluster_rank() ^ 1));
        arrive_cluster();
        wait_cluster();
    }
    y[32 * blockIdx.x + threadIdx.x] = sum;
    arrive_cluster();
    wait_cluster();
}
