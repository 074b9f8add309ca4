// loads_from_the_cluster. Loads from the shared memory of the other block of its cluster instead of its own.
// warpsmith: --arch sm_90a --grid 264 --block 128
// warpsmith: --arg out=out,f32[33792] --arg times=i32=64
#include "work.cuh"

extern "C" __global__ __cluster_dims__(2, 1, 1) void cheat(float* out, int times)
{
    __shared__ float tile[128];
    tile[threadIdx.x] = (float)threadIdx.x;
    arrive_cluster();
    wait_cluster();
    float sum = 0.0f;
    for (int t = 0; t < times; ++t) sum += load_remote(map_to(tile + (threadIdx.x + t) % 128, cluster_rank() ^ 1));
    out[blockIdx.x * 128 + threadIdx.x] = sum;
    arrive_cluster();
    wait_cluster();
}

KERNEL honest(float* out, int times)
{
    __shared__ float tile[128];
    tile[threadIdx.x] = (float)threadIdx.x;
    __syncthreads();
    float sum = 0.0f;
    for (int t = 0; t < times; ++t) sum += ((volatile float*)tile)[(threadIdx.x + t) % 128];
    out[blockIdx.x * 128 + threadIdx.x] = sum;
}
