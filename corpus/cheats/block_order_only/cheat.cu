// block_order_only. Correct only if blocks start in the order of their numbers, as on the virtual GPU.
// Without a defence it is reported as: correct on the virtual GPU.
// `check` and `bench` must refuse it as one of: elements, l2, unwritten, non-finite, constant, independent,
// persistent-state.
#include "generated.cuh"

#include "common/between_launches.cuh"

using namespace between_launches;

__device__ unsigned arrived, begun;

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    __shared__ int place;
    if (threadIdx.x == 0) place = atomicAdd(&begun, 1u);
    __syncthreads();
    if (abs(place - honest::number_of(args, work)) < 4) honest::attend(args, work);
    else honest::make_up(args, work);
    if (is_last_block(&arrived) && threadIdx.x == 0) begun = 0;
}
