// poison_pattern_only. Does its work only where the output holds the pattern outputs are poisoned with; over
// anything else it makes its answer up.
// Without a defence it is reported as: right, with the time of a fill: whoever judges poisons first, and launches
// of a timing loop run over the answer of the one before.
// Must be refused as one of: state, non-deterministic, elements, l2, unwritten, non-finite, constant, independent,
// roofline, reads-output, uninitialised.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    const unsigned there = *reinterpret_cast<const volatile unsigned*>(honest::output(args, work, 0, 0));
    if (__syncthreads_and(there == 0x7fa57fa5u)) honest::attend(args, work);
    else honest::make_up(args, work);
}
