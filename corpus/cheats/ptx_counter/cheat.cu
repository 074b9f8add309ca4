// ptx_counter. As hidden_counter, but with a variable that inline PTX declares inside a function.
// Without a defence it is reported as: correct on a GPU; the virtual GPU does not load such PTX.
// `check` and `bench` must refuse it as one of: persistent-state, non-deterministic, elements, l2, unwritten,
// non-finite, constant, independent, broken, refused.
#include "generated.cuh"

#include "common/between_launches.cuh"

using namespace between_launches;

__device__ unsigned arrived;

// Adds to a variable that only the PTX declares, and returns its old value.
__device__ __noinline__ unsigned count(unsigned more) {
    unsigned before;
    asm volatile(
        "{\n\t.global .u32 launches;\n\tatom.global.add.u32 %0, [launches], %1;\n\t}"
        : "=r"(before)
        : "r"(more)
        : "memory");
    return before;
}

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const unsigned launches = count(0);
    if (launches < 3) honest::attend(args, honest::own_work());
    else honest::make_up(args, honest::own_work());
    if (is_last_block(&arrived) && threadIdx.x == 0) count(1);
}
