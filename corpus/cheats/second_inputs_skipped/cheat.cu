// second_inputs_skipped. Does nothing where Q and V lie behind O and O holds an answer: the second inputs of a timing loop.
// Without a defence it is reported as: right, with half its time: no judged launch has inputs there.
// Must be refused as one of: elements, l2, unwritten, faster-on-repeats, constant, independent.
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
