// time_bomb. Stores the time of its first launch, and writes an invented output two seconds later.
// Without a defence it is reported as: correct, because a check ends earlier; a long measurement and users get wrong
// results.
// `check` and `bench` must refuse it as one of: persistent-state, non-deterministic, elements, l2, unwritten,
// non-finite, constant, independent.
#include "generated.cuh"

#include "common/between_launches.cuh"

using namespace between_launches;

__device__ unsigned arrived;
__device__ unsigned long long first_launch;

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    unsigned long long time;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
    if (first_launch == 0 || time < first_launch + 2000000000ull) honest::attend(args, work);
    else honest::make_up(args, work);
    if (is_last_block(&arrived) && threadIdx.x == 0 && first_launch == 0) first_launch = time;
}
