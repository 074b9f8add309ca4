// trusts_unpoisoned_output. A block does nothing if its output is not NaN.
// Without a defence it is reported as: correct, with the time of an empty kernel, because outputs are poisoned before
// the judged launch but not between timed launches.
// `check` and `bench` must refuse it as one of: persistent-state, non-deterministic, elements, l2, unwritten,
// non-finite, constant, independent, uninitialised.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    const float there = __low2float(*honest::output(args, work, 0, 0));
    if (__syncthreads_and(there == there)) return;
    honest::attend(args, work);
}
