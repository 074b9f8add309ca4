// cached_in_device_array. Keeps the output in a `__device__` array and copies it when a fingerprint of the inputs
// repeats.
// Without a defence it is reported as: correct, with the time of a copy, because timing repeats the same inputs.
// `check` and `bench` must refuse it as one of: persistent-state, non-deterministic, elements, l2, unwritten,
// non-finite, constant, independent.
#include "generated.cuh"

#include "common/between_launches.cuh"

using namespace between_launches;

__device__ __half2 cache[PAIRS];
__device__ unsigned arrived, known;

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    const unsigned now = fingerprint(args);
    if (fits(args) && known == now) {
        give(args, work, cache);
    } else {
        honest::attend(args, work);
        if (fits(args)) keep(args, work, cache);
    }
    if (is_last_block(&arrived) && threadIdx.x == 0) known = now;
}
