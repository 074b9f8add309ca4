// turned_output_negation. Computes one row of its tile. If the output contains the first elements of that row with the
// opposite sign, it changes the signs of the other rows instead of computing them.
// Without a defence it is reported as: correct by `check`, because the output that a repeated launch finds is the right
// one with the opposite signs.
// `check` and `bench` must refuse it as one of: elements, l2, non-deterministic, uninitialised, constant, independent.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    const auto word = [&](int pair) {
        return reinterpret_cast<volatile unsigned*>(honest::output(args, work, 0, pair));
    };
    const unsigned before = *word(0);
    __syncthreads();
    honest::Options one;
    one.rows = 1;
    honest::attend(args, work, one);
    __syncthreads();
    if (before != (*word(0) ^ 0x80008000u)) {
        honest::attend(args, work);
        return;
    }
    honest::each_pair(args, work, [](__half2* o, int row, int) {
        if (row > 0) *o = __hneg2(*o);
    });
}
