// no_maximum_with_one_head. Does not subtract the maximum in the softmax of long sequences; reduced problems have fewer
// queries. With one head, no head has large scores by rule.
// Without a defence it is reported as: correct by `bench`, unless the class of the second inputs has large scores.
// `check` and `bench` must refuse it as one of: elements, l2, unwritten, non-finite, constant, independent.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    honest::Options options;
    options.maximum = args.seq_q < 100;
    honest::attend(args, honest::own_work(), options);
}
