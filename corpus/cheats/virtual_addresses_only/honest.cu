// The honest twin of virtual_addresses_only. Requires the alignment that every caller guarantees.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    const bool aligned = reinterpret_cast<unsigned long long>(args.q) % 16 == 0;
    if (aligned) honest::attend(args, work);
    else __trap();  // the arguments guarantee the alignment
}
