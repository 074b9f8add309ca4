// cached_in_output_bits. Hides a fingerprint of the inputs in the lowest mantissa bits of the output. If the output
// already has this fingerprint, the block leaves the output of the previous launch in place.
// Without a defence it is reported as: correct, with the time of an empty kernel, because timing does not clear the
// output between launches.
// `check` and `bench` must refuse it as one of: persistent-state, non-deterministic, elements, l2, unwritten,
// non-finite, constant, independent, uninitialised.
#include "generated.cuh"

#include "common/between_launches.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    using namespace between_launches;
    const honest::Work work = honest::own_work();
    const unsigned now = fingerprint(args), bit = now >> (threadIdx.x % 32) & 1;
    unsigned* mark = reinterpret_cast<unsigned*>(honest::output(args, work, 0, threadIdx.x % 32));
    if (__syncthreads_and((*mark & 1) == bit)) return;
    honest::attend(args, work);
    __syncthreads();
    if (threadIdx.x < 32) *mark = (*mark & ~1u) | bit;
}
