// The honest twin of forged_samples. Prints one line of text.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    honest::attend(args, honest::own_work());
    if (threadIdx.x == 0 && honest::number_of(args, honest::own_work()) == 0) printf("done\n");
}
