// Hopper: a block passes a tile to the next block of its cluster by a bulk copy, and refills the tile after the receiver
// has it.
// warpsmith: --arch sm_90a --kernel pass --grid 2 --block 128 --shared 0
// warpsmith: --arg x=f32[2,2,256]=normal(1) --arg y=out,f32[2,2,256]

#include "../hopper.cuh"

HOPPER void copy_to(u32 to, const void* from, u32 bytes, u32 bar)
{
    asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(to), "r"(address(from)), "r"(bytes), "r"(bar) : "memory");
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128) pass(const float* x, float* y)
{
    __shared__ alignas(128) float tile[256], taken[2][256];
    __shared__ u64 full[2];
    const u32 other = cluster_rank() ^ 1;
    if (threadIdx.x == 0) {
        for (int n = 0; n < 2; ++n) {
            init(&full[n], 1);
            expect(&full[n], 1024);
        }
        fence_init();
    }
    arrive_cluster();
    wait_cluster();
    for (int n = 0; n < 2; ++n) {
        for (int i = threadIdx.x; i < 256; i += 128)
            tile[i] = x[(2 * blockIdx.x + n) * 256 + i];
        fence_proxy();
        __syncthreads();
        if (threadIdx.x == 0)
            copy_to(map_to(taken[n], other), tile, 1024, map_to(&full[n], other));
        wait(&full[n], 0);
        arrive_cluster();
        wait_cluster();
    }
    for (int n = 0; n < 2; ++n)
        for (int i = threadIdx.x; i < 256; i += 128)
            y[(2 * blockIdx.x + n) * 256 + i] = taken[n][i];
    arrive_cluster();
    wait_cluster();
}
