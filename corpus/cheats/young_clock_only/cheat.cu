// young_clock_only. Correct only while %globaltimer is small. A GPU counts nanoseconds since 1970; the virtual GPU
// counted from the launch.
// Without a defence it is reported as: correct on the virtual GPU.
// `check` and `bench` must refuse it as one of: elements, l2, unwritten, non-finite, constant, independent.
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
