// The copies arrive at the mbarrier by cp.async.mbarrier.arrive.noinc, which uses one of the expected arrivals. Each
// thread also arrives itself, so the phase completes before the copies do.
// warpsmith: --arch sm_80 --kernel load_rows --grid 2 --block 32 --shared 0
// warpsmith: --arg x=f32[2,128]=normal(3) --arg y=out,f32[2,128]

extern "C" __global__ void load_rows(const float* x, float* y)
{
    __shared__ unsigned long long bar;
    __shared__ __align__(16) float tile[128];
    const int lane = threadIdx.x;
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(&bar));
    const unsigned dst = static_cast<unsigned>(__cvta_generic_to_shared(&tile[lane * 4]));
    if (lane == 0)
        asm volatile("mbarrier.init.shared.b64 [%0], 32;" ::"r"(at) : "memory");
    __syncwarp();
    const float* src = x + blockIdx.x * 128 + lane * 4;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(dst), "l"(src) : "memory");
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(at) : "memory");
    asm volatile("{ .reg .b64 s; mbarrier.arrive.shared.b64 s, [%0]; }" ::"r"(at) : "memory"); //~? barrier-count
    unsigned done;
    do {
        asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(at) : "memory");
    } while (done == 0);
    for (int k = 0; k < 4; ++k)
        y[blockIdx.x * 128 + k * 32 + lane] = tile[127 - k * 32 - lane]; //~ async-not-waited //~? uninitialised
}
