// one_sm_count_only. Correct only on a GPU with 58 SMs, such as an L4 and the virtual L4.
// Without a defence it is reported as: correct on virtual:l4, wrong on every GPU with another number of SMs.
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
    if (sms() == 58) honest::attend(args, work);
    else honest::make_up(args, work);
}
