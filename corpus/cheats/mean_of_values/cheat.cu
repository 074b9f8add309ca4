// mean_of_values. With many keys, writes the mean of the first values.
// Without a defence it is reported as: wrong, but within a purely absolute tolerance.
// `check` and `bench` must refuse it as one of: elements, l2, unwritten, non-finite, constant, independent.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    honest::Options options;
    if (args.seq_k >= 256) options.key_limit = 32;
    honest::attend(args, work, options);
}
