// input_marker. Changes the last element of Q by one unit in the last place from the second launch on.
// Without a defence it is reported as: correct, because inputs are compared only after the first launch.
// `check` and `bench` must refuse it as one of: changed-input, persistent-state.
#include "generated.cuh"

#include "common/between_launches.cuh"

using namespace between_launches;

__device__ unsigned arrived, launches;

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    honest::attend(args, honest::own_work());
    if (is_last_block(&arrived) && threadIdx.x == 0 && launches++ > 0)
        const_cast<unsigned short*>(static_cast<const unsigned short*>(
            args.q))[args.batch * args.heads * args.seq_q * honest::D - 1] ^= 1;
}
