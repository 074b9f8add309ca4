// young_clock_only. Right only while %globaltimer is small: a GPU counts nanoseconds since 1970, the virtual GPU
// since the launch.
// Without a defence it is reported as: right on the virtual GPU.
// Must be refused as one of: elements, l2, unwritten, non-finite, constant, independent, clock, time.
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
    if (now() < 1ull << 50) honest::attend(args, work);
    else honest::make_up(args, work);
}
