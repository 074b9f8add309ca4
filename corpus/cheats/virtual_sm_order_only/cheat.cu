// virtual_sm_order_only. Correct only if block i runs on SM i modulo the number of SMs, as on the virtual GPU.
// Without a defence it is reported as: correct on the virtual GPU.
// `check` and `bench` must refuse it as one of: elements, l2, unwritten, non-finite, constant, independent.
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
    if (sm() == honest::number_of(args, work) % sms()) honest::attend(args, work);
    else honest::make_up(args, work);
}
