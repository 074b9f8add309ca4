// Thread 0 initialises the mbarrier; a block barrier follows before any thread arrives.
// warpsmith: --arch sm_80 --kernel shift --grid 2 --block 64 --shared 0
// warpsmith: --arg x=i32[128]=iota --arg y=out,i32[128]

__device__ __forceinline__ unsigned long long arrive(unsigned bar)
{
    unsigned long long state;
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(bar) : "memory");
    return state;
}

__device__ __forceinline__ bool completed(unsigned bar, unsigned long long state)
{
    unsigned done;
    asm volatile("{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(bar), "l"(state) : "memory");
    return done != 0;
}

extern "C" __global__ void shift(const int* x, int* y)
{
    __shared__ unsigned long long bar;
    __shared__ int s[64];
    const int t = threadIdx.x, i = blockIdx.x * 64 + t;
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(&bar));
    if (t == 0)
        asm volatile("mbarrier.init.shared.b64 [%0], 64;" ::"r"(at) : "memory");
    __syncthreads();
    s[t] = x[i];
    const unsigned long long state = arrive(at);
    while (!completed(at, state))
        ;
    y[i] = s[(t + 1) & 63];
}
