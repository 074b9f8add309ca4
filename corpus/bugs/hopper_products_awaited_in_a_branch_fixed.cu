// The fixed twin of hopper_products_awaited_in_a_branch.cu.
// warpsmith: --arch sm_90a --kernel tile --grid 1 --block 128 --shared 16384
// warpsmith: --arg ta=tensor,a[64,64]=swizzle(128) --arg tb=tensor,b[64,64]=swizzle(128) --arg a=f16[64,64]=normal(1)
// warpsmith: --arg b=f16[64,64]=normal(2) --arg limits=f32[4]=iota --arg c=out,f32[64,64]

#include <cuda_fp16.h>
#include "../hopper.cuh"

extern "C" __global__ void __launch_bounds__(128) tile(const __grid_constant__ TensorMap ta, const __grid_constant__ TensorMap tb,
                                                       const __half* a, const __half* b, const float* limits, float* c)
{
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ u64 full;
    unsigned char *sa = memory, *sb = memory + 8192;
    if (threadIdx.x == 0) {
        init(&full, 1);
        fence_init();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        expect(&full, 16384);
        load(sa, &ta, 0, 0, &full);
        load(sb, &tb, 0, 0, &full);
    }
    wait(&full, 0);
    float d[32] = {};
    fence_products();
    for (int k = 0; k < 4; ++k)
        product_f16(d, descriptor(sa + 32 * k), descriptor(sb + 32 * k));
    commit_products();
    wait_products<0>();
    keep(d);
    if (__any_sync(~0u, limits[threadIdx.x / 32] > 1.0f)) {
        for (int i = 0; i < 32; ++i) d[i] *= 0.5f;
        write_tile(c, 64, d);
        return;
    }
    write_tile(c, 64, d);
}
