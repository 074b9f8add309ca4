// virtual_grid_id_only. Correct only if %gridid is 1, as in every launch of the virtual GPU.
// Without a defence it is reported as: correct on the virtual GPU; on a GPU every launch has another number.
// `check` and `bench` must refuse it as one of: elements, l2, unwritten, non-finite, constant, independent.
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
