// The honest twin of one_layout_only. The layout decides which block computes which tile, not what is computed.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    const bool by_head = args.q_strides.sequence == honest::D;
    honest::attend(args, {by_head ? work.tile : static_cast<int>(gridDim.x) - 1 - work.tile, work.head, work.batch});
}
