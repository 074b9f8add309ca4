// forged_protocol. Prints the lines with which a worker reports its times, and says that everything was right.
// Without a defence it is reported as: with the times it prints, where a worker speaks on the stream that kernels
// print to.
// Must be refused as one of: elements, l2, unwritten, non-finite, constant, independent, printf, protocol,
// roofline, prints.
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
