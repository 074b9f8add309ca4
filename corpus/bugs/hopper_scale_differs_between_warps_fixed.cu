// Hopper: the last warp of the warpgroup adds the first product to D, and the others replace D.
// warpsmith: --arch sm_90a --kernel tile --grid 1 --block 128 --shared 16384
// warpsmith: --arg ta=tensor,a[64,64]=swizzle(128) --arg tb=tensor,b[64,64]=swizzle(128) --arg a=f16[64,64]=normal(1)
// warpsmith: --arg b=f16[64,64]=normal(2) --arg c=out,f32[64,64]

#include <cuda_fp16.h>
#include "../hopper.cuh"

extern "C" __global__ void __launch_bounds__(128) tile(const __grid_constant__ TensorMap ta, const __grid_constant__ TensorMap tb,
                                                       const __half* a, const __half* b, float* c)
{
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ u64 full;
    unsigned char *sa = memory, *sb = memory + 8192;
    if (threadIdx.x == 0) {
        init(&full, 1);
        fence_init();
        expect(&full, 16384);
        load(sa, &ta, 0, 0, &full);
        load(sb, &tb, 0, 0, &full);
    }
    __syncthreads();
    wait(&full, 0);
    float d[32] = {};
    fence_products();
    for (int k = 0; k < 4; ++k)
        product_f16_scaled(d, descriptor(sa + 32 * k), descriptor(sb + 32 * k), k > 0);
    commit_products();
    wait_products<0>();
    keep(d);
    write_tile(c, 64, d);
}
