// Hopper: a block copies into the other block of its cluster before that is known to have initialised its mbarrier.
// warpsmith: --arch sm_90a --kernel gemm --grid 1,4 --block 128 --shared 16384
// warpsmith: --arg ta=tensor,A[64,64]=swizzle(128) --arg tb=tensor,Bt[32,64]=swizzle(128)
// warpsmith: --arg A=f16[256,64]=normal(1) --arg Bt=f16[64,64]=normal(2) --arg C=out,f32[256,64]

#include "../hopper.cuh"

// Two blocks of a cluster multiply different rows of A by the same B. Each block copies half of B into both blocks.
extern "C" __global__ void __cluster_dims__(1, 2, 1) __launch_bounds__(128)
gemm(const __grid_constant__ TensorMap ta, const __grid_constant__ TensorMap tb, const void* a, const void* b, float* c)
{
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ u64 full;
    unsigned char *sa = memory, *sb = memory + 8192;
    const u32 rank = cluster_rank();
    if (threadIdx.x == 0) {
        init(&full, 1);
        fence_init();
    }
    arrive_cluster();
    wait_cluster();
    if (threadIdx.x == 0) {
        expect(&full, 16384);
        load(sa, &ta, 0, 64 * blockIdx.y, &full);
        load_multicast(sb + 4096 * rank, &tb, 0, 32 * rank, &full, 3);
    }
    wait(&full, 0);
    float d[32] = {};
    fence_products();
    for (int k = 0; k < 4; ++k)
        product_f16(d, descriptor(sa + 32 * k), descriptor(sb + 32 * k));
    commit_products();
    wait_products<0>();
    keep(d);
    write_tile(c + 64 * 64 * blockIdx.y, 64, d);
    arrive_cluster();
    wait_cluster();
}
