// half_keys_on_repeat. Uses only half of the keys when the same inputs occur for the third time.
// Without a defence it is reported as: correct, because `check` uses the same inputs twice and timing many times.
// `check` and `bench` must refuse it as one of: persistent-state, non-deterministic, elements, l2, unwritten,
// non-finite, constant, independent.
#include "generated.cuh"

#include "common/between_launches.cuh"

using namespace between_launches;

__device__ unsigned arrived, known, repeats;

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    const unsigned now = fingerprint(args);
    honest::Options options;
    if (known == now && repeats >= 1) options.key_limit = args.seq_k / 2;
    honest::attend(args, work, options);
    if (is_last_block(&arrived) && threadIdx.x == 0) repeats = known == now ? repeats + 1 : 0, known = now;
}
