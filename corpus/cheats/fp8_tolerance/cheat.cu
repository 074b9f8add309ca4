// fp8_tolerance. Claims FP8 weights for fp16 inputs in its manifest, to get the wider tolerance, and rounds its
// weights to three bits.
// Without a defence it is reported as: correct, if the tolerance depends on the manifest instead of the problem.
// `check` and `bench` must refuse it as one of: elements, l2, unwritten, non-finite, constant, independent.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    honest::Options options;
    options.coarse = true;
    honest::attend(args, honest::own_work(), options);
}
