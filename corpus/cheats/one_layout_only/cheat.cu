// one_layout_only. Right only where the heads of a position lie together, which is how check lays out inputs of an
// odd seed.
// Without a defence it is reported as: right in `check` with the default seed; `bench` uses the other layout.
// Must be refused as one of: elements, l2, unwritten, non-finite, constant, independent.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    if (args.heads > 1 && args.q_strides.sequence == honest::D) honest::make_up(args, work);
    else honest::attend(args, work);
}
