// Hopper: the blocks of a cluster add to the counts of each other. Each block zeroes its own, and only its own threads wait.
// warpsmith: --arch sm_90a --kernel counts --grid 2 --block 64 --shared 0
// warpsmith: --arg x=u32[128]=randint(3,0,64) --arg y=out,f32[64]

#include "../hopper.cuh"

extern "C" __global__ void __cluster_dims__(2, 1, 1) counts(const u32* x, float* y)
{
    __shared__ float bins[32];
    if (threadIdx.x < 32) bins[threadIdx.x] = 0;
    arrive_cluster();
    wait_cluster();
    const u32 bin = x[64 * blockIdx.x + threadIdx.x];
    add_remote(map_to(bins + bin % 32, bin / 32), 1);
    arrive_cluster();
    wait_cluster();
    if (threadIdx.x < 32) y[32 * blockIdx.x + threadIdx.x] = bins[threadIdx.x];
}
