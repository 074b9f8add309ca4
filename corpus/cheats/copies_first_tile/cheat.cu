// copies_first_tile. Computes the first tile of every head and copies its output to the other tiles.
// Without a defence it is reported as: wrong, but correct on constant inputs.
// `check` and `bench` must refuse it as one of: elements, l2, unwritten, non-finite, constant, independent.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    const honest::Work first = {0, work.head, work.batch};
    // Every block computes the rows of the first tile into its own rows, so it waits for no other block.
    attention::Arguments moved = args;
    moved.o = honest::output(args, work, 0, 0) - (honest::output(args, first, 0, 0) - static_cast<__half2*>(args.o));
    honest::Options options;
    options.rows = (1ull << honest::rows_of(args, work)) - 1;
    honest::attend(moved, first, options);
}
