// poison_pattern_only. Computes only if the output contains the poison pattern; otherwise it invents its output.
// Without a defence it is reported as: correct, with the time of a fill, because judged launches have poisoned
// outputs and timed launches have the output of the previous launch.
// `check` and `bench` must refuse it as one of: persistent-state, non-deterministic, elements, l2, unwritten,
// non-finite, constant, independent, uninitialised.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    const unsigned there = *reinterpret_cast<const volatile unsigned*>(honest::output(args, work, 0, 0));
    if (__syncthreads_and(there == 0x7fa57fa5u)) honest::attend(args, work);
    else honest::make_up(args, work);
}
