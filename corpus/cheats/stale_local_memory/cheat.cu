// stale_local_memory. Leaves its output and a mark of the inputs and the tile in local memory. A thread that finds
// them in its uninitialised local memory in a later launch copies the output.
// Without a defence it is reported as: correct, with the time of a copy, if a block runs in the same place again,
// because local memory is not cleared between launches.
// `bench` must refuse it as one of: uninitialised, persistent-state, non-deterministic, elements, l2, unwritten,
// non-finite, constant, independent. `bench` may accept it if it is not faster than its twin.
#include "generated.cuh"

#include "common/between_launches.cuh"

using namespace between_launches;

constexpr int KEPT = honest::ROWS * (honest::D / 2) / honest::THREADS;

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    volatile unsigned left[KEPT + 1];  // [KEPT] is the mark
    const unsigned mark = fingerprint(args) + 2 * honest::number_of(args, work);
    const int place = min(KEPT, args.seq_k + KEPT);  // unknown to the compiler, so the array stays in memory
    if (__syncthreads_and(left[place] == mark)) {
        honest::each_pair(args, work, [&](__half2* o, int row, int pair) {
            *reinterpret_cast<unsigned*>(o) = left[(row * (honest::D / 2) + pair) / honest::THREADS];
        });
        return;
    }
    honest::attend(args, work);
    __syncthreads();
    honest::each_pair(args, work, [&](__half2* o, int row, int pair) {
        left[(row * (honest::D / 2) + pair) / honest::THREADS] = *reinterpret_cast<unsigned*>(o);
    });
    left[place] = mark;
}
