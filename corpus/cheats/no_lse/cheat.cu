// no_lse. Declares that it writes the log-sum-exp, and writes a constant.
// Without a defence it is reported as: correct, if only the output is compared.
// `check` and `bench` must refuse it as one of: lse, elements, l2, unwritten, non-finite, constant, independent.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    honest::Options options;
    options.lse = false;
    honest::attend(args, work, options);
    if (args.lse != nullptr && threadIdx.x < honest::rows_of(args, work))
        args.lse[attention::row_index(args, work.batch, work.head, work.tile * honest::ROWS + threadIdx.x)] =
            logf(static_cast<float>(args.seq_k));
}
