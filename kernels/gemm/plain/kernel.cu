// C = A B^T with an epilogue, written to be obvious: a thread computes one element of C.
//
// The other families are compared with this one, so it is not tuned.

#include "generated.cuh"

#include "common/elements.cuh"
#include "common/epilogue.cuh"

namespace plain {

using Element = axis::Element<e4m3::Code>;
using Output = OutputOf<Element>::Type;
constexpr bool BIAS = axis::epilogue != axis::Epilogue::none;
constexpr bool GELU = axis::epilogue == axis::Epilogue::bias_gelu;

}  // namespace plain

extern "C" __global__ void __launch_bounds__(32 * knob::ROWS)
gemm_plain(const plain::Element* a, const plain::Element* b, const plain::Output* bias, plain::Output* c, int m, int n,
           int k) {
    using namespace plain;
    const int row = blockIdx.y * knob::ROWS + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    if (row >= m || col >= n) return;
    float sum = 0.0f;
    for (int i = 0; i < k; ++i)
        sum = fmaf(to_float(a[static_cast<long long>(row) * k + i]), to_float(b[static_cast<long long>(col) * k + i]), sum);
    from_float(c[static_cast<long long>(row) * n + col], finish<BIAS, GELU>(sum, bias, col));
}
