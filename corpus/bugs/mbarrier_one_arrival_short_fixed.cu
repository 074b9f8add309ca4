// A producer warp and a consumer warp use an mbarrier that counts the producer's 32 threads.
// warpsmith: --arch sm_80 --kernel mailbox --grid 2 --block 64 --shared 0
// warpsmith: --arg x=f32[2,32]=normal(3) --arg y=out,f32[2,32]

__device__ __forceinline__ unsigned shared_address(const void* p)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void arrive(unsigned long long* bar)
{
    asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(shared_address(bar)) : "memory");
}

__device__ __forceinline__ bool completed(unsigned long long* bar, unsigned parity)
{
    unsigned done;
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(shared_address(bar)), "r"(parity) : "memory");
    return done != 0;
}

extern "C" __global__ void mailbox(const float* x, float* y)
{
    __shared__ unsigned long long full;
    __shared__ float box[32];
    const int lane = threadIdx.x % 32;
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared.b64 [%0], 32;" ::"r"(shared_address(&full)) : "memory");
    __syncthreads();
    if (threadIdx.x < 32) {
        box[lane] = x[blockIdx.x * 32 + lane] * 0.5f;
        arrive(&full);
    } else {
        while (!completed(&full, 0))
            ;
        y[blockIdx.x * 32 + lane] = box[31 - lane];
    }
}
