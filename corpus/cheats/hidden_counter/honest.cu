// The honest twin of hidden_counter. Has a hidden counter that is 0 again at the end of every launch.
#include "generated.cuh"

#include "common/between_launches.cuh"

using namespace between_launches;

namespace {
__device__ unsigned arrived, next_tile;
}

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    __shared__ int tile;
    if (threadIdx.x == 0) tile = atomicAdd(&next_tile, 1u);
    __syncthreads();
    honest::attend(args, honest::numbered(args, tile));
    if (is_last_block(&arrived) && threadIdx.x == 0) next_tile = 0;
}
