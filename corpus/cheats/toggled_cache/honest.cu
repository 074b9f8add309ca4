// The honest twin of toggled_cache. Uses and clears its scratch memory within every launch.
#include "generated.cuh"

#include "common/between_launches.cuh"

using namespace between_launches;

__device__ __half2 cache[PAIRS];

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    honest::attend(args, work);
    if (fits(args)) {
        keep(args, work, cache);
        __syncthreads();
        give(args, work, cache);
        __syncthreads();
        honest::each_pair(args, work, [&](__half2*, int row, int pair) { cache[slot(args, work, row, pair)] = __half2(); });
    }
}
