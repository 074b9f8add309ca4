// stray_write_later. Writes beyond the end of the output from the second launch on.
// Without a defence it is reported as: correct, because guard bands are compared only after the first launch.
// `check` and `bench` must refuse it as one of: out-of-bounds, trespass, illegal-access, persistent-state.
#include "generated.cuh"

#include "common/between_launches.cuh"

using namespace between_launches;

__device__ unsigned arrived, launches;

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    honest::attend(args, honest::own_work());
    if (is_last_block(&arrived) && threadIdx.x == 0 && launches++ > 0)
        static_cast<__half2*>(args.o)[args.batch * args.heads * args.seq_q * (honest::D / 2)] = __half2();
}
