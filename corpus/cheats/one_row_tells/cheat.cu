// one_row_tells. Computes one row of its tile. If the output already contains that row, it assumes that the other
// rows are there too.
// Without a defence it is reported as: correct, with the time of one row, if a launch finds its own output, as cold
// and eager launches do.
// `bench` must refuse it as one of: elements, l2, unwritten, faster-on-repeats, constant, independent,
// non-deterministic. `bench` may accept it if it is not faster than its twin.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    __shared__ unsigned before[honest::D / 2];
    const auto word = [&](int pair) {
        return reinterpret_cast<volatile unsigned*>(honest::output(args, work, 0, pair));
    };
    for (int i = threadIdx.x; i < honest::D / 2; i += honest::THREADS) before[i] = *word(i);
    honest::Options one;
    one.rows = 1;
    honest::attend(args, work, one);
    __syncthreads();
    bool differs = false;
    for (int i = threadIdx.x; i < honest::D / 2; i += honest::THREADS) differs |= before[i] != *word(i);
    if (__syncthreads_or(differs)) honest::attend(args, work);
}
