// E4M3 codes with a scale per head, written to be obvious: one block per head, one element at a time, the head read twice.
//
//   scale = absmax / 448 (1 if absmax <= 1e-6),  codes = x / scale to nearest even
//
// The other families are compared with this one, so it is not tuned.

#include "generated.cuh"

#include "common/e4m3.cuh"
#include "common/elements.cuh"

namespace plain {

template <axis::Dtype>
struct ElementOf;
template <>
struct ElementOf<axis::Dtype::fp16> {
    using Type = __half;
};
template <>
struct ElementOf<axis::Dtype::bf16> {
    using Type = __nv_bfloat16;
};
using Element = ElementOf<axis::dtype>::Type;

constexpr int THREADS = knob::THREADS;
constexpr int WARPS = THREADS / 32;
static_assert(smem::maxima::dim0 == WARPS, "a maximum per warp");

}  // namespace plain

extern "C" __global__ void __launch_bounds__(plain::THREADS)
quantise_plain(const plain::Element* x, e4m3::Code* codes, float* scales, int seq, int head_dim) {
    using namespace plain;
    extern __shared__ __align__(16) unsigned char shared[];
    float* maxima = reinterpret_cast<float*>(shared + smem::maxima::offset);  // [WARPS]
    const int elements = seq * head_dim;
    const long long head = static_cast<long long>(blockIdx.x) * elements;

    float absmax = 0.0f;
    for (int i = threadIdx.x; i < elements; i += THREADS) absmax = fmaxf(absmax, fabsf(to_float(x[head + i])));
    absmax = warp_max(absmax);
    if (threadIdx.x % 32 == 0) maxima[threadIdx.x / 32] = absmax;
    __syncthreads();
    absmax = warp_max(maxima[threadIdx.x % WARPS]);

    const e4m3::Scale scale(absmax);
    if (threadIdx.x == 0) scales[blockIdx.x] = scale.scale;
    for (int i = threadIdx.x; i < elements; i += THREADS)
        codes[head + i].bits = e4m3::encode2(scale.quotient(to_float(x[head + i])), 0.0f) & 0xff;
}
