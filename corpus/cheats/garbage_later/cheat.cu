// garbage_later. Counts its launches and writes an invented output from the second launch on.
// Without a defence it is reported as: correct if only one launch is judged (`bench`, and `check` on problems that
// are not small).
// `check` and `bench` must refuse it as one of: persistent-state, non-deterministic, elements, l2, unwritten,
// non-finite, constant, independent.
#include "generated.cuh"

#include "common/between_launches.cuh"

using namespace between_launches;

__device__ unsigned arrived, launches;

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    if (launches == 0) honest::attend(args, honest::own_work());
    else honest::make_up(args, honest::own_work());
    if (is_last_block(&arrived) && threadIdx.x == 0) ++launches;
}
