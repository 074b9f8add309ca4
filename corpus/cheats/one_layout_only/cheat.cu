// one_layout_only. Correct only if the heads of a position are adjacent in memory, which is the layout of `check` for
// odd seeds.
// Without a defence it is reported as: correct in `check` with the default seed; `bench` uses the other layout.
// `check` and `bench` must refuse it as one of: elements, l2, unwritten, non-finite, constant, independent.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    if (args.heads > 1 && args.q_strides.sequence == honest::D) honest::make_up(args, work);
    else honest::attend(args, work);
}
