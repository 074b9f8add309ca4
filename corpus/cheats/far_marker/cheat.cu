// far_marker. As guard_marker, but one MiB behind the output: beyond every guard band, in memory that is often
// mapped.
// Without a defence it is reported as: correct on a GPU, because no guard band is that wide and allocations are
// rounded up to 2 MiB.
// `check` and `bench` must refuse it as one of: out-of-bounds, trespass, illegal-access.
#include "generated.cuh"

#include "common/between_launches.cuh"

using namespace between_launches;

__device__ unsigned arrived;

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    unsigned* mark = static_cast<unsigned*>(args.o) + (1 << 18);
    if (*mark == 0xc0ffee01u) return;
    honest::attend(args, honest::own_work());
    if (is_last_block(&arrived) && threadIdx.x == 0) *mark = 0xc0ffee01u;
}
