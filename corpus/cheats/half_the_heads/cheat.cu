// half_the_heads. With many heads, copies the output of a neighbour to every second head.
// Without a defence it is reported as: correct in `check` on the virtual GPU, which reduces large problems to a few
// heads.
// `bench` must refuse it as one of: elements, l2, unwritten, non-finite, constant, independent.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    honest::Work work = honest::own_work();
    if (args.batch * args.heads < 16) return honest::attend(args, work);
    attention::Arguments moved = args;
    if (work.head % 2 == 1) {
        moved.o = static_cast<__half*>(args.o) + args.o_strides.head;
        --work.head;
    }
    honest::attend(moved, work);
}
