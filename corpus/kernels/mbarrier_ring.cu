// Warp-specialised ring: a producer warp fills two slots by cp.async that arrive on mbarriers, two consumer warps
// drain them.
// Expected: out[t] = sum over tiles k of (k + 1) x[k][63 - t].
// warpsmith: --arch sm_80 --kernel ring --grid 1 --block 96 --shared 0
// warpsmith: --arg x=f32[7,64]=uniform(161) --arg out=out,f32[64] --arg tiles=i32=7

__device__ __forceinline__ unsigned shared_address(const void* p)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void init(unsigned long long* bar, int count)
{
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(bar)), "r"(count) : "memory");
}

__device__ __forceinline__ void arrive(unsigned long long* bar)
{
    [[maybe_unused]] unsigned long long state;
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(shared_address(bar)) : "memory");
}

__device__ __forceinline__ void wait(unsigned long long* bar, unsigned parity)
{
    unsigned done;
    do {
        asm volatile("{\n\t"
                     ".reg .pred p;\n\t"
                     "mbarrier.test_wait.parity.shared.b64 p, [%1], %2;\n\t"
                     "selp.u32 %0, 1, 0, p;\n\t"
                     "}"
                     : "=r"(done) : "r"(shared_address(bar)), "r"(parity) : "memory");
    } while (!done);
}

extern "C" __global__ void ring(const float* x, float* out, int tiles)
{
    __shared__ unsigned long long full[2], empty[2];
    __shared__ __align__(16) float slot[2][64];
    const int t = threadIdx.x;
    if (t < 2) {
        init(&full[t], 32);
        init(&empty[t], 64);
    }
    __syncthreads();

    if (t < 32) {
        for (int k = 0; k < tiles; ++k) {
            const int s = k & 1;
            if (k >= 2)
                wait(&empty[s], (k / 2 - 1) & 1);
            asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(shared_address(&slot[s][t * 2])),
                         "l"(x + k * 64 + t * 2) : "memory");
            asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(&full[s])) : "memory");
        }
    } else {
        const int c = t - 32;
        float acc = 0.0f;
        for (int k = 0; k < tiles; ++k) {
            const int s = k & 1;
            wait(&full[s], (k / 2) & 1);
            acc += (k + 1) * slot[s][63 - c];
            arrive(&empty[s]);
        }
        out[c] = acc;
    }
}
