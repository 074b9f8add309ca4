// no_maximum. Leaves out the maximum of the softmax.
// Without a defence it is reported as: right on inputs of class normal; infinite on large ones.
// Must be refused as one of: elements, l2, unwritten, non-finite, constant, independent.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    honest::Options options;
    options.maximum = false;
    honest::attend(args, honest::own_work(), options);
}
