// Hopper: a bulk copy of 512 bytes signals an mbarrier that expects 256: when the wait returns, half of the tile may
// still be in flight.
// warpsmith: --arch sm_90 --kernel bulk_tile --grid 2 --block 64 --shared 0
// warpsmith: --arg x=f32[2,128]=normal(3) --arg y=out,f32[2,128]

constexpr unsigned EXPECTED = 256;

__device__ __forceinline__ unsigned shared_address(const void* p)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void wait(const unsigned long long* bar, unsigned parity)
{
    unsigned done;
    do {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(shared_address(bar)), "r"(parity) : "memory");
    } while (done == 0);
}

extern "C" __global__ void bulk_tile(const float* x, float* y)
{
    __shared__ __align__(16) float tile[128];
    __shared__ unsigned long long bar;
    const int t = threadIdx.x;
    if (t == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&bar)) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (t == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                     ::"r"(shared_address(&bar)), "n"(EXPECTED) : "memory"); //~? barrier-count
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 512, [%2];"
                     ::"r"(shared_address(tile)), "l"(x + blockIdx.x * 128), "r"(shared_address(&bar)) : "memory");
    }
    wait(&bar, 0);
    for (int i = t; i < 128; i += 64)
        y[blockIdx.x * 128 + i] = tile[127 - i]; //~ async-not-waited //~| race //~? uninitialised
}
