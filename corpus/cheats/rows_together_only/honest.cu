// The honest twin of rows_together_only. Reads the strides and computes the same result for all of them.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const bool together = args.q_strides.head >= args.q_strides.sequence;
    honest::Options options;
    if (together) options.key_limit = args.seq_k;
    honest::attend(args, honest::own_work(), options);
}
