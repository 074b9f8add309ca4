// skips_row_tiles. In long sequences, invents the output of every sixteenth tile of rows.
// Without a defence it is reported as: wrong, unless the judge samples other rows.
// `check` and `bench` must refuse it as one of: elements, l2, unwritten, non-finite, constant, independent.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    if (args.seq_q >= 256 && work.tile % 16 == 5) honest::make_up(args, work);
    else honest::attend(args, work);
}
