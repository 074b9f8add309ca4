// The honest twin of poison_pattern_only. Writes its output before it reads it.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    honest::make_up(args, work);
    __syncthreads();
    const unsigned there = *reinterpret_cast<const volatile unsigned*>(honest::output(args, work, 0, 0));
    if (__syncthreads_and(there != 0x7fa57fa5u)) honest::attend(args, work);
}
