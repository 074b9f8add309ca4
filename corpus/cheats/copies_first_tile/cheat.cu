// copies_first_tile. The first tile of every head is computed, and its answer copied to the others.
// Without a defence it is reported as: wrong already; right on constant inputs.
// Must be refused as one of: elements, l2, unwritten, non-finite, constant, independent.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    const honest::Work first = {0, work.head, work.batch};
    // Every block computes the first tile's rows into its own: no other block need be waited for.
    attention::Arguments moved = args;
    moved.o = honest::output(args, work, 0, 0) - (honest::output(args, first, 0, 0) - static_cast<__half2*>(args.o));
    honest::Options options;
    options.rows = (1ull << honest::rows_of(args, work)) - 1;
    honest::attend(moved, first, options);
}
