// The honest twin of burst_skip. Reads the clock and stores nothing.
#include "generated.cuh"

#include "common/honest.cuh"

__device__ unsigned long long now() {
    unsigned long long nanoseconds;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
    return nanoseconds;
}

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    const unsigned long long start = now();
    honest::attend(args, work);
    if (now() < start) __trap();
}
