// burst_skip. Stores the time at which its last launch ended. Does nothing in a launch that starts within 50
// microseconds, because that launch is part of a timing loop.
// Without a defence it is reported as: correct, with the time of an empty kernel, because judged launches are further
// apart than timed launches.
// `check` and `bench` must refuse it as one of: persistent-state, non-deterministic, elements, l2, unwritten,
// non-finite, constant, independent.
#include "generated.cuh"

#include "common/between_launches.cuh"

using namespace between_launches;

__device__ unsigned arrived;
__device__ unsigned long long last_end;

__device__ unsigned long long now() {
    unsigned long long nanoseconds;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
    return nanoseconds;
}

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    const unsigned long long start = now();
    if (last_end != 0 && start > last_end && start < last_end + 50000) return;
    honest::attend(args, work);
    if (is_last_block(&arrived) && threadIdx.x == 0) last_end = now();
}
