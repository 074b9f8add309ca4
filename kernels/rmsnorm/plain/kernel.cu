// RMSNorm with a residual, written to be obvious: one block per row, one element at a time, the row read twice.
//
//   h = x + residual,  y = h / sqrt(mean(h^2) + eps) * weight
//
// Sums are fp32 in a fixed order. The other families are compared with this one, so it is not tuned.

#include "generated.cuh"

#include "common/elements.cuh"
#include "common/sums.cuh"

namespace plain {

using Element = axis::Element<>;

constexpr int THREADS = knob::THREADS;
static_assert(smem::partials::dim0 == THREADS / 32, "a partial sum per warp");

}  // namespace plain

extern "C" __global__ void __launch_bounds__(plain::THREADS)
rmsnorm_plain(const plain::Element* x, const plain::Element* residual, const plain::Element* weight, plain::Element* y,
              plain::Element* h, float eps, int cols) {
    using namespace plain;
    extern __shared__ __align__(16) unsigned char shared[];
    float* partials = reinterpret_cast<float*>(shared + smem::partials::offset);  // [THREADS / 32]
    const long long row = static_cast<long long>(blockIdx.x) * cols;

    float squares = 0.0f;
    for (int col = threadIdx.x; col < cols; col += THREADS) {
        const float sum = to_float(x[row + col]) + to_float(residual[row + col]);
        from_float(h[row + col], sum);
        squares = fmaf(sum, sum, squares);
    }
    const float factor = rsqrtf(warps_sum<THREADS / 32>(partials, squares) / cols + eps);

    for (int col = threadIdx.x; col < cols; col += THREADS) {
        const float sum = to_float(x[row + col]) + to_float(residual[row + col]);
        from_float(y[row + col], sum * factor * to_float(weight[col]));
    }
}
