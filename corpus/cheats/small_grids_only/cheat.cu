// small_grids_only. Invents the output of the last head if the grid has more blocks than a reduced problem.
// Without a defence it is reported as: correct in `check` on the virtual GPU, which reduces large problems to a few
// heads.
// `bench` must refuse it as one of: elements, l2, unwritten, non-finite, constant, independent.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    const bool large = gridDim.x * gridDim.y * gridDim.z > 64;
    if (large && work.head == args.heads - 1) honest::make_up(args, work);
    else honest::attend(args, work);
}
