// hidden_counter. Counts its launches in a variable with internal linkage, which a program cannot look up by name,
// and writes garbage from the fourth launch on.
// Without a defence it is reported as: correct, because only earlier launches are judged.
// `check` and `bench` must refuse it as one of: persistent-state, non-deterministic, elements, l2, unwritten,
// non-finite, constant, independent.
#include "generated.cuh"

#include "common/between_launches.cuh"

using namespace between_launches;

namespace {
__device__ unsigned arrived, launches;
}

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    if (launches < 3) honest::attend(args, honest::own_work());
    else honest::make_up(args, honest::own_work());
    if (is_last_block(&arrived) && threadIdx.x == 0) ++launches;
}
