// small_grids_only. With more blocks than a problem has that was cut to size, the last head is made up.
// Without a defence it is reported as: right in `check` on the virtual GPU, which cuts large problems to a few
// heads.
// Must be refused as one of: elements, l2, unwritten, non-finite, constant, independent.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    const bool large = gridDim.x * gridDim.y * gridDim.z > 64;
    if (large && work.head == args.heads - 1) honest::make_up(args, work);
    else honest::attend(args, work);
}
