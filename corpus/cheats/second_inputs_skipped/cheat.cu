// second_inputs_skipped. Does nothing if Q and V lie behind O in memory and O contains an output, as for the second
// inputs of a timing loop.
// Without a defence it is reported as: correct, with half its time, because no judged launch has inputs there.
// `bench` must refuse it as one of: elements, l2, unwritten, faster-on-repeats, constant, independent. `bench` may
// accept it if it is not faster than its twin.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    const unsigned there = *reinterpret_cast<const volatile unsigned*>(honest::output(args, work, 0, 0));
    const bool second = args.q > args.o && args.v > args.o;
    const unsigned poison = 0x7fa57fa5u;
    if (__syncthreads_and(second && there != poison)) return;
    honest::attend(args, work);
}
