// Softmax of rows, written to be obvious: one block per row, one element at a time, in the three steps of the formula.
//
//   maximum  of the row
//   sum      of e^(x - maximum)
//   output   e^(x - maximum) / sum
//
// Each step reads the row again. Sums are fp32 in a fixed order. The other families are compared with this one, so it is
// not tuned.

#include "generated.cuh"

#include "common/elements.cuh"
#include "common/softmax.cuh"

namespace plain {

using Element = axis::Element<>;

constexpr int THREADS = knob::THREADS;
constexpr int WARPS = THREADS / 32;
static_assert(smem::partials::dim0 == 2 && smem::partials::dim1 == WARPS, "a maximum and a sum per warp");

}  // namespace plain

extern "C" __global__ void __launch_bounds__(plain::THREADS)
softmax_plain(const plain::Element* x, plain::Element* y, int cols) {
    using namespace plain;
    extern __shared__ __align__(16) unsigned char shared[];
    float* maxima = reinterpret_cast<float*>(shared + smem::partials::offset);  // [WARPS]
    float* sums = maxima + WARPS;                                               // [WARPS]
    const long long row = static_cast<long long>(blockIdx.x) * cols;

    float maximum = negative_infinity();
    for (int col = threadIdx.x; col < cols; col += THREADS) maximum = fmaxf(maximum, to_float(x[row + col]));
    maximum = lane_max<32>(maximum);
    if (threadIdx.x % 32 == 0) maxima[threadIdx.x / 32] = maximum;
    __syncthreads();
    maximum = lane_max<WARPS>(maxima[threadIdx.x % WARPS]);

    const float origin = origin_of(maximum);
    float sum = 0.0f;
    for (int col = threadIdx.x; col < cols; col += THREADS) sum += exponential(to_float(x[row + col]) - origin);
    sum = lane_sum<32>(sum);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = lane_sum<WARPS>(sums[threadIdx.x % WARPS]);

    for (int col = threadIdx.x; col < cols; col += THREADS)
        from_float(y[row + col], exponential(to_float(x[row + col]) - origin) / sum);
}
