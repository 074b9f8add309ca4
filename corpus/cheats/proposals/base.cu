// The family for which sources are proposed. It is honest and includes every header that a proposal may include.
#include "generated.cuh"

#include "common/between_launches.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    honest::attend(args, honest::own_work());
}
