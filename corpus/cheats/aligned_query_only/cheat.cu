// aligned_query_only. Right only if Q begins on a 2 MiB boundary, as a large allocation of its own does.
// Without a defence it is reported as: right where every check has Q in the same place.
// Must be refused as one of: elements, l2, unwritten, non-finite, constant, independent, address, addresses.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    if (reinterpret_cast<unsigned long long>(args.q) % (2 << 20) == 0) honest::attend(args, work);
    else honest::make_up(args, work);
}
