// toggled_cache. Odd launches compute and fill a cache; even launches use it and clear it. After two launches all its
// variables have their original values.
// Without a defence it is reported as: correct, and every second timed launch is a copy; after an even number of
// launches its state is unchanged.
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
    const unsigned now = fingerprint(args), before = known;
    if (fits(args) && before == now) {
        give(args, work, cache);
        honest::each_pair(args, work, [&](__half2*, int row, int pair) { cache[slot(args, work, row, pair)] = __half2(); });
    } else {
        honest::attend(args, work);
        if (fits(args) && before == 0) keep(args, work, cache);
    }
    if (is_last_block(&arrived) && threadIdx.x == 0) known = before == 0 ? now : 0;
}
