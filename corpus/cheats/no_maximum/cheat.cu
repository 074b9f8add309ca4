// no_maximum. Does not subtract the maximum in the softmax.
// Without a defence it is reported as: correct on inputs of class normal; infinite on inputs of class large.
// `check` and `bench` must refuse it as one of: elements, l2, unwritten, non-finite, constant, independent.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    honest::Options options;
    options.maximum = false;
    honest::attend(args, honest::own_work(), options);
}
