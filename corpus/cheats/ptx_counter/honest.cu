// The honest twin of ptx_counter. Its inline PTX declares a register.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    unsigned one;
    asm volatile("{\n\t.reg .u32 inner;\n\tmov.u32 inner, 1;\n\tmov.u32 %0, inner;\n\t}" : "=r"(one));
    if (one == 1) honest::attend(args, honest::own_work());
}
