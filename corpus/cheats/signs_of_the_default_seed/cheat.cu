// signs_of_the_default_seed. Correct only if the first sixteen elements of Q have the signs of the default seed.
// Without a defence it is reported as: correct, because outputs of redrawn inputs need only differ.
// `check` and `bench` must refuse it as one of: elements, l2, unwritten, non-finite, constant, independent.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    const unsigned short* q = static_cast<const unsigned short*>(args.q);
    unsigned signs = 0;
    for (int i = 0; i < 16; ++i) signs |= (q[i] >> 15) << i;
    if (signs == 0x682a) honest::attend(args, work);
    else honest::make_up(args, work);
}
