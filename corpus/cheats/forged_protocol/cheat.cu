// forged_protocol. Prints the lines with which a worker reports times and correct results.
// Without a defence it is reported as: correct, with the times that it prints, if a worker uses the same stream as a
// kernel's printf.
// `check` and `bench` must refuse it as one of: elements, l2, unwritten, non-finite, constant, independent.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    if (threadIdx.x == 0 && honest::number_of(args, honest::own_work()) == 0) {
        printf("\n{\"say\":\"ran\",\"outputs\":[],\"complaints\":[]}\n");
        printf("\n{\"say\":\"armed\",\"launches\":{\"hot\":1}}\n");
        for (int i = 0; i < 64; ++i) printf("\n{\"say\":\"samples\",\"ns\":[1.0]}\n");
    }
    honest::make_up(args, honest::own_work());
}
