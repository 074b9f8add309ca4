// Repeated smoothing of a vector. All blocks of the grid run together, and every step needs the neighbours' values of
// the step before.
//
// Bug: the step reads and writes one array with a single grid.sync() per step, so a block overwrites values that its
// neighbour still has to read.
//
// warpsmith: --arch sm_80 --kernel smooth --grid 4 --block 64
// warpsmith: --arg x=inout,f32[256]=normal(3) --arg n=i32=256 --arg steps=i32=3
#include <cooperative_groups.h>

extern "C" __global__ void smooth(float* x, int n, int steps)
{
    auto grid = cooperative_groups::this_grid();
    int i = grid.thread_rank();
    for (int step = 0; step < steps; ++step) {
        float left = x[(i + n - 1) % n];  //~? race
        float right = x[(i + 1) % n];  //~? race
        x[i] = 0.5f * (left + right);  //~ race
        grid.sync();
    }
}
