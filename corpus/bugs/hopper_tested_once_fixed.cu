// The fixed twin of hopper_tested_once.cu.
// warpsmith: --arch sm_90a --kernel copy --grid 1 --block 64 --shared 0
// warpsmith: --arg x=f32[256]=normal(1) --arg y=out,f32[256]

#include "../hopper.cuh"

// A bulk copy brings numbers into shared memory, and all threads write them back.
extern "C" __global__ void __launch_bounds__(64) copy(const float* x, float* y)
{
    __shared__ __align__(128) float given[256];
    __shared__ u64 full;
    if (threadIdx.x == 0) {
        init(&full, 1);
        fence_init();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        expect(&full, 1024);
        load_bytes(given, x, 1024, &full);
    }
    wait(&full, 0);
    for (int i = threadIdx.x; i < 256; i += 64)
        y[i] = given[i];
}
