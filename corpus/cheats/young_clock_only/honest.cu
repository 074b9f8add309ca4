// The honest twin of young_clock_only. Reads the clock. The result does not depend on it.
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
