// Hopper: a bulk copy of 512 bytes signals an mbarrier that expects 640 (the padded row): the rest never arrives.
// warpsmith: --arch sm_90 --kernel bulk_row --grid 1 --block 32 --shared 0
// warpsmith: --arg x=f32[128]=normal(3) --arg y=out,f32[128]

constexpr unsigned EXPECTED = 640;

__device__ __forceinline__ unsigned shared_address(const void* p)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ bool arrived(const unsigned long long* bar, unsigned parity)
{
    unsigned done;
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(shared_address(bar)), "r"(parity) : "memory");
    return done != 0;
}

extern "C" __global__ void bulk_row(const float* x, float* y)
{
    __shared__ __align__(16) float tile[160];
    __shared__ unsigned long long bar;
    const int lane = threadIdx.x;
    if (lane == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&bar)) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                     ::"r"(shared_address(&bar)), "n"(EXPECTED) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 512, [%2];"
                     ::"r"(shared_address(tile)), "l"(x), "r"(shared_address(&bar)) : "memory");
    }
    __syncwarp();
    while (!arrived(&bar, 0)) //~ deadlock //~| runaway
        ;
    for (int i = lane; i < 128; i += 32)
        y[i] = tile[i] * 2.0f;
}
