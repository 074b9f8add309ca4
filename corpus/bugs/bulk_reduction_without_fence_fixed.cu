// The fixed twin of bulk_reduction_without_fence.cu.
// warpsmith: --arch sm_90 --kernel add_tile --grid 2 --block 64 --shared 0
// warpsmith: --arg x=f32[128]=normal(3) --arg sum=inout,f32[64]=zeros

extern "C" __global__ void add_tile(const float* x, float* sum)
{
    __shared__ alignas(128) float tile[64];
    tile[threadIdx.x] = 2.0f * x[64 * blockIdx.x + threadIdx.x];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        const unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(tile));
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], 256;" ::"l"(sum), "r"(from) : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
}
