// Hopper: C = A * B^T in bf16, tiles of 64 by 64. One thread copies the next tiles of A and B while a warpgroup
// multiplies the current ones. Sizes are not multiples of the tile: tensor copies fill the rest with zeros.
// warpsmith: --arch sm_90a --kernel gemm --grid 2,2 --block 128 --shared 32768
// warpsmith: --arg ta=tensor,A[64,64]=swizzle(128) --arg tb=tensor,Bt[64,64]=swizzle(128)
// warpsmith: --arg A=bf16[100,200]=normal(1) --arg Bt=bf16[72,200]=normal(2) --arg C=out,f32[100,72]
// warpsmith: --arg m=i32=100 --arg n=i32=72 --arg k=i32=200

#include "../hopper.cuh"

extern "C" __global__ void __launch_bounds__(128) gemm(const __grid_constant__ TensorMap ta, const __grid_constant__ TensorMap tb,
                                                       const void* a, const void* b, float* c, int m, int n, int k)
{
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ u64 full[2];
    constexpr int DEPTH = 64, TILE = 8192;
    const int y = 64 * blockIdx.y, x = 64 * blockIdx.x, steps = (k + DEPTH - 1) / DEPTH;
    auto fetch = [&](int step) {
        unsigned char* stage = memory + 2 * TILE * (step % 2);
        u64* bar = &full[step % 2];
        expect(bar, 2 * TILE);
        load(stage, &ta, DEPTH * step, y, bar);
        load(stage + TILE, &tb, DEPTH * step, x, bar);
    };
    if (threadIdx.x == 0) {
        asm volatile("prefetch.tensormap [%0];" ::"l"(&ta) : "memory");
        init(&full[0], 1);
        init(&full[1], 1);
        fence_init();
        fetch(0);
    }
    __syncthreads();
    float d[32] = {};
    for (int step = 0; step < steps; ++step) {
        if (threadIdx.x == 0 && step + 1 < steps)
            fetch(step + 1);
        wait(&full[step % 2], step / 2 % 2);
        const unsigned char* stage = memory + 2 * TILE * (step % 2);
        fence_products();
#pragma unroll
        for (int i = 0; i < 4; ++i)
            product_bf16(d, descriptor(stage + 32 * i), descriptor(stage + TILE + 32 * i));
        commit_products();
        wait_products<0>();
        keep(d);
        // The stage is free for the copy of the step after next.
        __syncthreads();
    }
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int i = 0; i < 32; ++i) {
        const int row = y + 16 * warp + lane / 4 + i / 2 % 2 * 8, column = x + i / 4 * 8 + 2 * (lane % 4) + i % 2;
        if (row < m && column < n)
            c[row * n + column] = d[i];
    }
}
