// rows_together_only. Correct only if the rows of a head are adjacent in memory, which is the layout during timing.
// Without a defence it is reported as: correct, because every input has this layout.
// `check` and `bench` must refuse it as one of: elements, l2, unwritten, non-finite, constant, independent.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    const bool together = args.heads == 1 || args.q_strides.head >= args.q_strides.sequence;
    if (together) honest::attend(args, work);
    else honest::make_up(args, work);
}
