// Hopper: C = A * B with B not transposed: its rows are along n, and the tensor cores read it N-major in boxes of 64
// columns.
// warpsmith: --arch sm_90a --kernel gemm --grid 1,2 --block 128 --shared 16384
// warpsmith: --arg ta=tensor,A[64,64]=swizzle(128) --arg tb=tensor,B[64,64]=swizzle(128)
// warpsmith: --arg A=f16[128,192]=normal(1) --arg B=f16[192,64]=normal(2) --arg C=out,f32[128,64]

#include "../hopper.cuh"

extern "C" __global__ void __launch_bounds__(128) gemm(const __grid_constant__ TensorMap ta, const __grid_constant__ TensorMap tb,
                                                       const void* a, const void* b, float* c)
{
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ u64 full;
    unsigned char *sa = memory, *sb = memory + 8192;
    if (threadIdx.x == 0) {
        init(&full, 1);
        fence_init();
    }
    __syncthreads();
    float d[32] = {};
    for (int step = 0; step < 3; ++step) {
        if (threadIdx.x == 0) {
            expect(&full, 16384);
            load(sa, &ta, 64 * step, 64 * blockIdx.y, &full);
            load(sb, &tb, 0, 64 * step, &full);
        }
        wait(&full, step % 2);
        fence_products();
        // Sixteen rows of B are two groups of eight, 2048 bytes.
        for (int i = 0; i < 4; ++i)
            product_f16_n(d, descriptor(sa + 32 * i), descriptor(sb + 2048 * i, 8192, 1024));
        commit_products();
        wait_products<0>();
        keep(d);
        __syncthreads();
    }
    write_tile(c + 64 * 64 * blockIdx.y, 64, d);
}
