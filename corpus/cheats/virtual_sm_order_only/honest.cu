// The honest twin of virtual_sm_order_only. Reads the number of its SM. The result does not depend on it.
#include "generated.cuh"

#include "common/honest.cuh"

__device__ unsigned sm() {
    unsigned number;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
    return number;
}

__device__ unsigned sms() {
    unsigned number;
    asm volatile("mov.u32 %0, %%nsmid;" : "=r"(number));
    return number;
}

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    if (sm() < sms()) honest::attend(args, work);
    else __trap();
}
