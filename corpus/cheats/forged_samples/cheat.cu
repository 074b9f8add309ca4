// forged_samples. Gives correct results, and repeatedly prints the line with which a worker reports times.
// Without a defence it is reported as: correct, with a time of one nanosecond, if a worker uses the same stream as a
// kernel's printf.
// No command refuses it: its results are correct and its output is ignored. It must not be faster than its twin.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    honest::attend(args, honest::own_work());
    if (threadIdx.x == 0 && honest::number_of(args, honest::own_work()) == 0)
        for (int i = 0; i < 64; ++i) printf("\n{\"say\":\"samples\",\"ns\":[1.0]}\n");
}
