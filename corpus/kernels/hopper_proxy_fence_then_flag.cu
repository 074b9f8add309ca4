// Hopper: three warps write a tile and fence it for the async proxy. They pass it to a fourth warp, in the even blocks by a
// counter in shared memory, in the odd blocks by the barrier of the cluster. That warp stores the tile by a bulk copy.
// warpsmith: --arch sm_90a --kernel pass --grid 4 --block 128 --shared 0
// warpsmith: --arg x=f32[4,96]=normal(1) --arg y=out,f32[4,96]

#include "../hopper.cuh"

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128) pass(const float* x, float* y)
{
    __shared__ alignas(128) float tile[96];
    __shared__ u32 count;
    const int t = threadIdx.x;
    if (t == 0)
        count = 0;
    __syncthreads();
    if (t < 96) {
        tile[t] = x[96 * blockIdx.x + t];
        fence_proxy();
        asm volatile("red.release.cta.shared.add.u32 [%0], 1;" ::"r"(address(&count)) : "memory");
    } else if (blockIdx.x % 2 == 0) {
        u32 seen;
        do {
            asm volatile("ld.acquire.cta.shared.u32 %0, [%1];" : "=r"(seen) : "r"(address(&count)) : "memory");
        } while (seen < 96);
    }
    if (blockIdx.x % 2 == 0 && t == 96) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 384;" ::"l"(y + 96 * blockIdx.x), "r"(address(tile)) : "memory");
        commit_stores();
        wait_stores<0>();
    }
    arrive_cluster();
    wait_cluster();
    if (blockIdx.x % 2 == 1 && t == 96) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 384;" ::"l"(y + 96 * blockIdx.x), "r"(address(tile)) : "memory");
        commit_stores();
        wait_stores<0>();
    }
}
