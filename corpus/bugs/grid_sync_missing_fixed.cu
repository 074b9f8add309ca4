// Repeated smoothing of a vector. All blocks of the grid run together, and every step needs the neighbours' values of
// the step before. A second grid.sync() separates the reads from the writes.
//
// warpsmith: --arch sm_80 --kernel smooth --grid 4 --block 64
// warpsmith: --arg x=inout,f32[256]=normal(3) --arg n=i32=256 --arg steps=i32=3
#include <cooperative_groups.h>

extern "C" __global__ void smooth(float* x, int n, int steps)
{
    auto grid = cooperative_groups::this_grid();
    int i = grid.thread_rank();
    for (int step = 0; step < steps; ++step) {
        float left = x[(i + n - 1) % n];
        float right = x[(i + 1) % n];
        grid.sync();
        x[i] = 0.5f * (left + right);
        grid.sync();
    }
}
