// guard_marker. Writes a mark into the memory directly behind the output, and does nothing if it finds the mark.
// Without a defence it is reported as: correct on a GPU, if guard bands are compared only after the first launch and
// the mark is written later.
// `check` and `bench` must refuse it as one of: out-of-bounds, trespass, illegal-access.
#include "generated.cuh"

#include "common/between_launches.cuh"

using namespace between_launches;

__device__ unsigned arrived;

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    unsigned* mark = static_cast<unsigned*>(args.o) + args.batch * args.heads * args.seq_q * (honest::D / 2);
    if (*mark == 0xc0ffee01u) return;
    honest::attend(args, honest::own_work());
    if (is_last_block(&arrived) && threadIdx.x == 0) *mark = 0xc0ffee01u;
}
