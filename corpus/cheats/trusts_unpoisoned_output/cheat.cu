// trusts_unpoisoned_output. A block whose output is not NaN leaves it as it is.
// Without a defence it is reported as: right, with the time of an empty kernel: outputs are poisoned before the
// judged launch, not between timed ones.
// Must be refused as one of: state, non-deterministic, elements, l2, unwritten, non-finite, constant, independent,
// roofline, reads-output, uninitialised.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    const float there = __low2float(*honest::output(args, work, 0, 0));
    if (__syncthreads_and(there == there)) return;
    honest::attend(args, work);
}
