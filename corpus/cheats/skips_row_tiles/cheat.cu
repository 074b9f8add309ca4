// skips_row_tiles. In long sequences every sixteenth tile of rows gets the answer of no tile.
// Without a defence it is reported as: wrong already, unless the judge samples other rows.
// Must be refused as one of: elements, l2, unwritten, non-finite, constant, independent.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    if (args.seq_q >= 256 && work.tile % 16 == 5) honest::make_up(args, work);
    else honest::attend(args, work);
}
