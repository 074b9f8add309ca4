// guard_peek. Reads the memory before the output, and computes only if it finds a guard band there, because the
// launch is then judged.
// Without a defence it is reported as: correct on a GPU, because reading a guard band leaves no trace.
// `check` and `bench` must refuse it as one of: out-of-bounds, trespass, illegal-access.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    if (static_cast<const unsigned*>(args.o)[-1] == 0xb9b9b9b9u) honest::attend(args, work);
    else honest::make_up(args, work);
}
