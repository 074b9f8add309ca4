// The honest twin of guard_marker. Writes the last element of the output again instead.
#include "generated.cuh"

#include "common/between_launches.cuh"

using namespace between_launches;

__device__ unsigned arrived;

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    unsigned* mark = static_cast<unsigned*>(args.o) + args.batch * args.heads * args.seq_q * (honest::D / 2) - 1;
    honest::attend(args, honest::own_work());
    if (is_last_block(&arrived) && threadIdx.x == 0) *mark = *mark | 0u;
}
