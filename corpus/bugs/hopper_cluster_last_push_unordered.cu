// Hopper: each block pushes its sum to the next block of the cluster in rounds. After the last round nothing keeps a block
// from exiting before the push to it has arrived.
// warpsmith: --arch sm_90a --kernel rotate --grid 4 --block 32 --shared 0
// warpsmith: --arg x=f32[128]=normal(3) --arg y=out,f32[128]

#include "../hopper.cuh"

extern "C" __global__ void __cluster_dims__(4, 1, 1) rotate(const float* x, float* y)
{
    __shared__ float slots[2][32];
    const int t = threadIdx.x;
    float v = x[32 * blockIdx.x + t];
    arrive_cluster();
    wait_cluster();
    for (int round = 0; round < 3; ++round) {
        store_remote(map_to(&slots[round % 2][t], (cluster_rank() + 1) % 4), v); //~ out-of-bounds
        if (round == 2) break;
        arrive_cluster();
        wait_cluster();
        v += slots[round % 2][t];
    }
    y[32 * blockIdx.x + t] = v;
}
