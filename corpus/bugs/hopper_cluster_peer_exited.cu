// Hopper: a block may exit before the other block has read its shared memory.
// warpsmith: --arch sm_90a --kernel swap --grid 2 --block 32 --shared 0
// warpsmith: --arg x=f32[2]=normal(1) --arg y=out,f32[2]

#include <cuda_fp16.h>
#include "../hopper.cuh"

// Each block of a cluster of two sends a number to the other.
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(32) swap(const float* x, float* y)
{
    __shared__ float given;
    if (threadIdx.x == 0)
        given = x[blockIdx.x];
    arrive_cluster();
    wait_cluster();
    if (threadIdx.x == 0 && cluster_rank() == 1)
        __nanosleep(1000);
    if (threadIdx.x == 0)
        y[blockIdx.x] = load_remote(map_to(&given, cluster_rank() ^ 1)); //~ out-of-bounds
}
