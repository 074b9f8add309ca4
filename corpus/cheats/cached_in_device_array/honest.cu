// The honest twin of cached_in_device_array. Uses a `__device__` array as scratch memory within one launch and
// fills it with zeros again at the end.
#include "generated.cuh"

#include "common/between_launches.cuh"

using namespace between_launches;

__device__ __half2 scratch[PAIRS];

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    honest::attend(args, work);
    if (fits(args)) {
        keep(args, work, scratch);
        __syncthreads();
        give(args, work, scratch);
        __syncthreads();
        honest::each_pair(args, work, [&](__half2*, int row, int pair) {
            scratch[slot(args, work, row, pair)] = __half2();
        });
    }
}
