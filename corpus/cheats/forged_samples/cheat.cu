// forged_samples. Is right, and prints the line with which a worker reports its times, again and again.
// Without a defence it is reported as: with a time of one nanosecond, where a worker speaks on the stream that
// kernels print to.
// Must be refused as one of: printf, protocol, prints. Note: on the virtual GPU nothing is printed to a stream,
// and the answer is right: no command refuses it there, and no time may be the printed one anywhere.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    honest::attend(args, honest::own_work());
    if (threadIdx.x == 0 && honest::number_of(args, honest::own_work()) == 0)
        for (int i = 0; i < 64; ++i) printf("\n{\"say\":\"samples\",\"ns\":[1.0]}\n");
}
