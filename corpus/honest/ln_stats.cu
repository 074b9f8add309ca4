// warpsmith: reference = "ref.py:layernorm_stats"
// warpsmith: sizes = { rows = 5, cols = 257 }
// warpsmith: independent = "rows"
// warpsmith: tolerance = { reduction = "cols" }
// warpsmith: launch = { grid = ["rows"], block = [64] }
// warpsmith: [arguments]
// warpsmith: x = "in fp32[rows, cols]"
// warpsmith: y = "out fp32[rows, cols]"
// warpsmith: mean = "out fp32[rows]"
// warpsmith: rstd = "out fp32[rows]"
// warpsmith: eps = "scalar fp32 = 1e-5"
// warpsmith: cols = "size"
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
__global__ void ln_stats(const float* x, float* y, float* mean, float* rstd, float eps, int cols) {
    __shared__ float s[2], q[2];
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    x += blockIdx.x * cols;
    float a = 0;
    for (int i = block.thread_rank(); i < cols; i += 64) a += x[i];
    a = cg::reduce(warp, a, cg::plus<float>());
    if (warp.thread_rank() == 0) s[warp.meta_group_rank()] = a;
    block.sync();
    float mu = (s[0] + s[1]) / cols;
    a = 0;
    for (int i = block.thread_rank(); i < cols; i += 64) a = fmaf(x[i] - mu, x[i] - mu, a);
    a = cg::reduce(warp, a, cg::plus<float>());
    if (warp.thread_rank() == 0) q[warp.meta_group_rank()] = a;
    block.sync();
    float inv = rsqrtf((q[0] + q[1]) / cols + eps);
    if (block.thread_rank() == 0) {
        mean[blockIdx.x] = mu;
        rstd[blockIdx.x] = inv;
    }
    for (int i = block.thread_rank(); i < cols; i += 64) y[blockIdx.x * cols + i] = (x[i] - mu) * inv;
}
