// Ring of one slot with two mbarriers. The consumer always waits for parity 0: from the second tile on the wait returns
// immediately, and the slot is read while the producer fills it.
// warpsmith: --arch sm_80 --kernel ring --grid 1 --block 64 --shared 0
// warpsmith: --arg x=f32[4,32]=normal(3) --arg y=out,f32[4,32] --arg tiles=i32=4

__device__ __forceinline__ unsigned shared_address(const void* p)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void init(unsigned long long* bar, unsigned count)
{
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(bar)), "r"(count) : "memory");
}

__device__ __forceinline__ void arrive(unsigned long long* bar)
{
    asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(shared_address(bar)) : "memory");
}

__device__ __forceinline__ void wait(unsigned long long* bar, unsigned parity)
{
    unsigned done;
    do {
        asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(shared_address(bar)), "r"(parity) : "memory"); //~? barrier-phase
    } while (done == 0);
}

extern "C" __global__ void ring(const float* x, float* y, int tiles)
{
    __shared__ unsigned long long full, empty;
    __shared__ float slot[32];
    const int lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        init(&full, 32);
        init(&empty, 32);
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        for (int k = 0; k < tiles; ++k) {
            if (k > 0)
                wait(&empty, (k - 1) & 1);
            slot[lane] = x[k * 32 + lane]; //~ race
            arrive(&full); //~? barrier-count
        }
    } else {
        for (int k = 0; k < tiles; ++k) {
            wait(&full, 0); //~? deadlock //~? runaway
            y[k * 32 + lane] = slot[31 - lane]; //~| race
            arrive(&empty); //~? barrier-count
        }
    }
}
