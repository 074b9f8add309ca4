// The honest twin of no_maximum_with_one_head. Long sequences take another branch, which is correct too.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    honest::Options options;
    if (args.seq_q >= 100) options.key_limit = args.seq_k;
    honest::attend(args, honest::own_work(), options);
}
