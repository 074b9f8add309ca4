// no_maximum_at_full_size. Does not subtract the maximum in the softmax if the problem has more than two heads;
// reduced problems have fewer.
// Without a defence it is reported as: correct, because other classes than normal are checked on reduced problems.
// `check` and `bench` must refuse it as one of: elements, l2, unwritten, non-finite, constant, independent.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    honest::Options options;
    options.maximum = args.batch * args.heads <= 2;
    honest::attend(args, honest::own_work(), options);
}
