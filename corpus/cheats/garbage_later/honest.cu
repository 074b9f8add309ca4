// The honest twin of garbage_later. Reads a `__device__` variable and does not write it.
#include "generated.cuh"

#include "common/honest.cuh"

__device__ volatile float factor = 1.0f;

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    if (factor == 1.0f) honest::attend(args, honest::own_work());
    else honest::make_up(args, honest::own_work());
}
