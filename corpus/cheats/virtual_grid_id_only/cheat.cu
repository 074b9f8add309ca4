// virtual_grid_id_only. Right only where %gridid is 1, which it is in every launch of the virtual GPU.
// Without a defence it is reported as: right on the virtual GPU; on a GPU the number tells launches apart.
// Must be refused as one of: elements, l2, unwritten, non-finite, constant, independent, virtual, grid.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    unsigned long long grid;
    asm volatile("mov.u64 %0, %%gridid;" : "=l"(grid));
    if (grid == 1) honest::attend(args, work);
    else honest::make_up(args, work);
}
