// stale_shared_memory. Leaves its output and a fingerprint of the inputs in shared memory. A block that finds them
// there, from the previous launch on the same SM, copies the output.
// Without a defence it is reported as: correct, with the time of a copy, if a block runs on the same SM again.
// `bench` must refuse it as one of: uninitialised, persistent-state, non-deterministic, elements, l2, unwritten,
// non-finite, constant, independent. `bench` may accept it if it is not faster than its twin.
#include "generated.cuh"

#include "common/between_launches.cuh"

using namespace between_launches;

// Keeps its contents after the block ends, because shared memory is not cleared between launches.
struct Stale {
    unsigned mark;
    int tile;
    __half2 rows[honest::ROWS][honest::D / 2];
};

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    __shared__ Stale stale;
    const honest::Work work = honest::own_work();
    const unsigned now = fingerprint(args);
    const int number = honest::number_of(args, work);
    volatile unsigned* mark = &stale.mark;
    volatile int* tile = &stale.tile;
    if (__syncthreads_and(*mark == now && *tile == number)) {
        honest::each_pair(args, work, [&](__half2* o, int row, int pair) { *o = stale.rows[row][pair]; });
        return;
    }
    honest::attend(args, work);
    __syncthreads();
    honest::each_pair(args, work, [&](__half2* o, int row, int pair) { stale.rows[row][pair] = *o; });
    __syncthreads();
    if (threadIdx.x == 0) *mark = now, *tile = number;
}
