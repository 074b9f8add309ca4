// Hopper: the tile is filled for the next round while products that read it are in flight.
// warpsmith: --arch sm_90a --kernel tile --grid 1 --block 128 --shared 16384
// warpsmith: --arg tb=tensor,b[64,64]=swizzle(128) --arg a=f16[64,64]=normal(1) --arg b=f16[64,64]=normal(2)
// warpsmith: --arg c=out,f32[64,64]

#include <cuda_fp16.h>
#include "../hopper.cuh"

extern "C" __global__ void __launch_bounds__(128) tile(const __grid_constant__ TensorMap tb, const __half* a, const __half* b, float* c)
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
        expect(&full, 8192);
        load(sb, &tb, 0, 0, &full);
    }
    // Rows of 128 bytes; the swizzle permutes their chunks of 16 bytes.
    for (int i = threadIdx.x; i < 512; i += 128) {
        const int row = i / 8, chunk = i % 8;
        *reinterpret_cast<uint4*>(sa + 128 * row + 16 * (chunk ^ row % 8)) = reinterpret_cast<const uint4*>(a)[i];
    }
    fence_proxy();
    __syncthreads();
    wait(&full, 0);
    float d[32] = {};
    fence_products();
    for (int k = 0; k < 4; ++k)
        product_f16(d, descriptor(sa + 32 * k), descriptor(sb + 32 * k));
    commit_products();
    for (int i = threadIdx.x; i < 512; i += 128)
        reinterpret_cast<uint4*>(sa)[i] = make_uint4(0, 0, 0, 0); //~ async-not-waited //~| race
    wait_products<0>();
    keep(d);
    write_tile(c, 64, d);
}
