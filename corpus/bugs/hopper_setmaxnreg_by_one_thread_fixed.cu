// Hopper: a whole warpgroup releases registers, then one of its threads copies.
// warpsmith: --arch sm_90a --kernel copies --grid 1 --block 256 --shared 0
// warpsmith: --arg x=f32[256]=normal(1) --arg y=out,f32[256]

#include "../hopper.cuh"

// One thread of the second warpgroup copies, the first warpgroup doubles.
extern "C" __global__ void __launch_bounds__(256, 1) copies(const float* x, float* y)
{
    __shared__ alignas(128) float s[256];
    __shared__ u64 full;
    if (threadIdx.x == 0) {
        init(&full, 1);
        fence_init();
    }
    __syncthreads();
    if (threadIdx.x >= 128) {
        fewer_registers<40>();
        if (threadIdx.x == 128) {
            expect(&full, 1024);
            load_bytes(s, x, 1024, &full);
        }
        return;
    }
    wait(&full, 0);
    y[threadIdx.x] = 2 * s[threadIdx.x];
    y[threadIdx.x + 128] = 2 * s[threadIdx.x + 128];
}
