// Hopper: the memory of an mbarrier object holds other data afterwards, but the object was not invalidated.
// warpsmith: --arch sm_90a --kernel reverse --grid 1 --block 128 --shared 0
// warpsmith: --arg x=f32[128]=normal(1) --arg y=out,f32[128]

#include "../hopper.cuh"

// Reverses x. The results are exchanged in the memory in which the barrier object was.
extern "C" __global__ void __launch_bounds__(128) reverse(const float* x, float* y)
{
    __shared__ __align__(128) float tile[128];
    __shared__ __align__(8) float results[128];
    u64* full = reinterpret_cast<u64*>(results);
    if (threadIdx.x == 0) {
        init(full, 1);
        fence_init();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        expect(full, 512);
        load_bytes(tile, x, 512, full);
    }
    wait(full, 0);
    __syncthreads();
    results[threadIdx.x] = tile[threadIdx.x]; //~ race
    __syncthreads();
    y[threadIdx.x] = results[127 - threadIdx.x];
}
