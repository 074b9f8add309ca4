// Hopper: blocks add their parts to a sum in global memory that the host has cleared.
// warpsmith: --arch sm_90a --kernel sum --grid 2 --block 64 --shared 0
// warpsmith: --arg x=f32[2,64]=normal(1) --arg y=inout,f32[64]=zeros

#include "../hopper.cuh"

extern "C" __global__ void __launch_bounds__(64) sum(const float* x, float* y)
{
    __shared__ alignas(128) float part[64];
    part[threadIdx.x] = x[64 * blockIdx.x + threadIdx.x];
    fence_proxy();
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], 256;" ::"l"(y), "r"(address(part)) : "memory");
        commit_stores();
        wait_stores<0>();
    }
}
