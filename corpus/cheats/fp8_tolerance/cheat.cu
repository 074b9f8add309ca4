// fp8_tolerance. Its manifest claims FP8 weights for fp16 inputs, to be judged by the wider bound, and rounds its
// weights to three bits.
// Without a defence it is reported as: right, if the bound follows the manifest instead of the problem.
// Must be refused as one of: elements, l2, unwritten, non-finite, constant, independent, manifest.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    honest::Options options;
    options.coarse = true;
    honest::attend(args, honest::own_work(), options);
}
