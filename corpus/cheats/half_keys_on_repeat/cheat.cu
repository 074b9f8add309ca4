// half_keys_on_repeat. When the same inputs come for the third time it attends to half of the keys.
// Without a defence it is reported as: right: check asks twice for the same inputs, timing many times.
// Must be refused as one of: state, non-deterministic, elements, l2, unwritten, non-finite, constant, independent,
// roofline.
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
