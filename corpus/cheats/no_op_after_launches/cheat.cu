// no_op_after_launches. Counts its launches in a `__device__` variable and does nothing from the fourth launch on.
// Without a defence it is reported as: correct, because the first launches are judged, with the time of an empty
// kernel.
// `check` and `bench` must refuse it as one of: persistent-state, non-deterministic, elements, l2, unwritten,
// non-finite, constant, independent.
#include "generated.cuh"

#include "common/between_launches.cuh"

using namespace between_launches;

__device__ unsigned arrived, launches;

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    if (launches < 3) honest::attend(args, honest::own_work());
    if (is_last_block(&arrived) && threadIdx.x == 0) ++launches;
}
