// Hopper: each thread of a cluster writes a number, fences it and arrives without release. The last warp then exits. The
// other warps wait, and read the numbers of the other block.
// warpsmith: --arch sm_90a --kernel swap --grid 4 --block 128 --shared 0
// warpsmith: --arg x=f32[512]=normal(1) --arg y=out,f32[4,96]

#include "../hopper.cuh"

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128) swap(const float* x, float* y)
{
    __shared__ float given[128];
    const int t = threadIdx.x;
    given[t] = x[128 * blockIdx.x + t];
    asm volatile("fence.acq_rel.cluster;" ::: "memory");
    arrive_cluster_relaxed();
    if (t >= 96)
        return;
    wait_cluster();
    const float taken = load_remote(map_to(&given[127 - t], cluster_rank() ^ 1));
    arrive_cluster();
    wait_cluster();
    y[96 * blockIdx.x + t] = taken;
}
