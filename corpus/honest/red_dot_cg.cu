#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
// warpsmith: reference = "ref.py:dot"
// warpsmith: sizes = { n = 3001 }
// warpsmith: deterministic = false
// warpsmith: tolerance = { reduction = "n" }
// warpsmith: launch = { grid = [3], block = [256] }
// warpsmith: [arguments]
// warpsmith: a = "in fp32[n]"
// warpsmith: b = "in fp32[n]"
// warpsmith: y = "out fp32[1] = 0"
// warpsmith: n = "size"
__global__ void red_dot_cg(const float* a, const float* b, float* y, int n) {
    cg::grid_group grid = cg::this_grid();
    cg::thread_block block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    float acc = 0.f;
    for (unsigned long long i = grid.thread_rank(); i < n; i += grid.size()) acc = fmaf(a[i], b[i], acc);
    acc = cg::reduce(warp, acc, cg::plus<float>());
    if (warp.thread_rank() == 0) atomicAdd(y, acc);
}
