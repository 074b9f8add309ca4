// E4M3 codes with a scale per head or block of tokens, written to be obvious: one thread block per scale, one element at a
// time, everything read twice.
//
//   scale = absmax / 448 (1 if absmax <= 1e-6),  codes = x / scale to nearest even
//   with `rotate`, x is rotated first: `common/rotation.cuh`
//
// The other families are compared with this one, so it is not tuned.

#include "generated.cuh"

#include "common/e4m3.cuh"
#include "common/elements.cuh"
#include "common/rotation.cuh"

namespace plain {

using Element = axis::Element<>;

constexpr int THREADS = knob::THREADS;
constexpr int WARPS = THREADS / 32;
static_assert(smem::maxima::dim0 == WARPS, "a maximum per warp");

// Element `column` of a token, after the rotation if there is one: entry (i, j) of the Hadamard matrix is -1 where i & j
// has an odd number of bits.
__device__ float element(const Element* token, int column, int head_dim) {
    if (!axis::rotate) return to_float(token[column]);
    float sum = 0.0f;
    for (int i = 0; i < head_dim; ++i) {
        const bool minus = (rotation::sign_bits(i / 8) >> i % 8 ^ __popc(i & column)) & 1;
        sum += minus ? -to_float(token[i]) : to_float(token[i]);
    }
    return sum * __frsqrt_rn(static_cast<float>(head_dim));
}

}  // namespace plain

extern "C" __global__ void __launch_bounds__(plain::THREADS)
quantise_plain(const plain::Element* x, e4m3::Code* codes, float* scales, int seq, int head_dim) {
    using namespace plain;
    extern __shared__ __align__(16) unsigned char shared[];
    float* maxima = reinterpret_cast<float*>(shared + smem::maxima::offset);  // [WARPS]
    const int tokens = axis::block == 0 ? seq : axis::block, blocks = (seq + tokens - 1) / tokens;
    const int first = blockIdx.x % blocks * tokens;
    const long long start = (static_cast<long long>(blockIdx.x / blocks) * seq + first) * head_dim;
    const int elements = min(tokens, seq - first) * head_dim;
    const auto value = [&](int i) { return element(x + start + i / head_dim * head_dim, i % head_dim, head_dim); };

    float absmax = 0.0f;
    for (int i = threadIdx.x; i < elements; i += THREADS) absmax = fmaxf(absmax, fabsf(value(i)));
    const e4m3::Scale scale(block_max<WARPS>(maxima, absmax));
    if (threadIdx.x == 0) scales[blockIdx.x] = scale.scale;
    for (int i = threadIdx.x; i < elements; i += THREADS)
        codes[start + i].bits = e4m3::encode2(scale.quotient(value(i)), 0.0f) & 0xff;
}
