// The honest twin of virtual_grid_id_only. Reads the number of the grid. The result does not depend on it.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    unsigned long long grid;
    asm volatile("mov.u64 %0, %%gridid;" : "=l"(grid));
    if (grid == 0xffffffffffffffffull) __trap();
    honest::attend(args, work);
}
