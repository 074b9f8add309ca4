// The honest twin of time_bomb. Reads the clock and stores nothing.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    unsigned long long time;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
    if (time == 0xffffffffffffffffull) __trap();
    honest::attend(args, work);
}
