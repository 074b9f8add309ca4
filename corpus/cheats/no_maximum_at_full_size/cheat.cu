// no_maximum_at_full_size. Leaves out the maximum of the softmax where a problem has more than two heads: problems that are cut to size have fewer.
// Without a defence it is reported as: right; other classes of inputs than normal are tried on problems cut to size.
// Must be refused as one of: elements, l2, unwritten, non-finite, constant, independent.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    honest::Options options;
    options.maximum = args.batch * args.heads <= 2;
    honest::attend(args, honest::own_work(), options);
}
