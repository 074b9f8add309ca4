// Hopper: sums over rows of 512, one cluster of four blocks per row. Each block stores its partial sum in its own
// shared memory, and the first block reads the partial sums there.
// warpsmith: --arch sm_90a --kernel sums --grid 12 --block 128 --shared 0
// warpsmith: --arg x=f32[3,512]=normal(5) --arg y=out,f32[3]

#include "../hopper.cuh"

extern "C" __global__ void __cluster_dims__(4, 1, 1) __launch_bounds__(128) sums(const float* x, float* y)
{
    __shared__ float parts[4];
    float v = x[128 * blockIdx.x + threadIdx.x];
    for (int offset = 16; offset > 0; offset /= 2)
        v += __shfl_xor_sync(~0u, v, offset);
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = v;
    arrive_cluster();
    wait_cluster();
    if (cluster_rank() == 0 && threadIdx.x == 0) {
        float sum = 0;
        for (int rank = 0; rank < 4; ++rank)
            for (int warp = 0; warp < 4; ++warp)
                sum += load_remote(map_to(&parts[warp], rank));
        y[blockIdx.x / 4] = sum;
    }
    // No block exits while the first block may still read.
    arrive_cluster();
    wait_cluster();
}
