// The honest twin of stray_write_later. The last block writes the last element of the output once more, inside its
// bounds.
#include "generated.cuh"

#include "common/between_launches.cuh"

using namespace between_launches;

__device__ unsigned arrived;

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    honest::attend(args, honest::own_work());
    if (is_last_block(&arrived) && threadIdx.x == 0) {
        volatile __half* last = static_cast<__half*>(args.o) + args.batch * args.heads * args.seq_q * honest::D - 1;
        const __half value = const_cast<const __half&>(*last);
        const_cast<__half&>(*last) = value;
    }
}
