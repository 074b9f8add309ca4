// The honest twin of aligned_query_only. The address decides which block computes which tile, not what is
// computed.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    // The tiles are the same; only their order differs.
    const bool aligned = reinterpret_cast<unsigned long long>(args.q) % (2 << 20) == 0;
    honest::attend(args, {aligned ? work.tile : static_cast<int>(gridDim.x) - 1 - work.tile, work.head, work.batch});
}
