// mean_of_values. With many keys it takes the mean of the first values for the answer.
// Without a defence it is reported as: wrong already; near enough for a bound that is absolute alone.
// Must be refused as one of: elements, l2, unwritten, non-finite, constant, independent.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    honest::Options options;
    if (args.seq_k >= 256) options.key_limit = 32;
    honest::attend(args, work, options);
}
