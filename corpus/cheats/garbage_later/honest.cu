// The honest twin of garbage_later. A `__device__` array that every launch writes before it reads it.
#include "generated.cuh"

#include "common/honest.cuh"

__device__ volatile float factor[64];

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    if (threadIdx.x == 0) factor[blockIdx.x % 64] = 1.0f;
    __syncthreads();
    if (factor[blockIdx.x % 64] == 1.0f) honest::attend(args, honest::own_work());
    else honest::make_up(args, honest::own_work());
}
