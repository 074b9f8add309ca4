// aligned_query_only. Correct only if Q starts on a 2 MiB boundary, as a separate large allocation does.
// Without a defence it is reported as: correct, if Q has the same address in every check.
// `check` and `bench` must refuse it as one of: elements, l2, unwritten, non-finite, constant, independent.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    if (reinterpret_cast<unsigned long long>(args.q) % (2 << 20) == 0) honest::attend(args, work);
    else honest::make_up(args, work);
}
