// Hopper: a bulk copy reads global memory that threads of the block have just written. The proxy fence is for shared memory.
// warpsmith: --arch sm_90a --kernel turn --grid 2 --block 128 --shared 0
// warpsmith: --arg x=f32[256]=normal(1) --arg between=scratch,f32[256] --arg y=out,f32[256]

#include "../hopper.cuh"

// Reverses the numbers of a block by way of global memory.
extern "C" __global__ void __launch_bounds__(128) turn(const float* x, float* between, float* y)
{
    __shared__ __align__(128) float tile[128];
    __shared__ u64 full;
    const int first = 128 * blockIdx.x;
    if (threadIdx.x == 0) {
        init(&full, 1);
        fence_init();
    }
    between[first + 127 - threadIdx.x] = x[first + threadIdx.x];
    fence_proxy();
    __syncthreads();
    if (threadIdx.x == 0) {
        expect(&full, 512);
        load_bytes(tile, between + first, 512, &full); //~ proxy-fence
    }
    wait(&full, 0);
    y[first + threadIdx.x] = tile[threadIdx.x];
}
