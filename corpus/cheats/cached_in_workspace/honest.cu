// The honest twin of cached_in_workspace. Uses the workspace as scratch memory within one launch.
#include "generated.cuh"

#include "common/between_launches.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    using namespace between_launches;
    const honest::Work work = honest::own_work();
    __half2* scratch = static_cast<__half2*>(args.workspace) + 256;
    honest::attend(args, work);
    if (fits(args)) {
        keep(args, work, scratch);
        __syncthreads();
        give(args, work, scratch);
    }
}
