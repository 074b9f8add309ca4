// E4M3 codes with a scale per block of tokens, in one launch that reads memory once.
//
// A thread block takes the `axis::block` tokens of one scale. A thread loads all its vectors of eight elements, 16 bytes
// each, before it uses the first, and keeps them in registers until the scale is known.

#include "generated.cuh"

#include "common/e4m3.cuh"
#include "common/elements.cuh"
#include "common/rotation.cuh"

namespace blocks {

using Element = axis::Element<>;

using knob::THREADS;
using knob::VECTORS;
constexpr int WARPS = THREADS / 32;
constexpr int TOKENS = axis::block;
static_assert(smem::maxima::dim0 == WARPS, "a maximum per warp");

}  // namespace blocks

extern "C" __global__ void __launch_bounds__(blocks::THREADS)
quantise_blocks(const blocks::Element* x, e4m3::Code* codes, float* scales, int seq, int head_dim) {
    using namespace blocks;
    extern __shared__ __align__(16) unsigned char shared[];
    float* maxima = reinterpret_cast<float*>(shared + smem::maxima::offset);  // [WARPS]
    const int blocks_of_head = (seq + TOKENS - 1) / TOKENS;
    const int first_token = blockIdx.x % blocks_of_head * TOKENS;
    const long long start = (static_cast<long long>(blockIdx.x / blocks_of_head) * seq + first_token) * (head_dim / 8);
    const int vectors = min(TOKENS, seq - first_token) * (head_dim / 8);
    const auto vector = [](int i) { return static_cast<int>(threadIdx.x) + i * THREADS; };

    // Vectors past the last token are zeros: they change no maximum.
    Eight<Element> loaded[VECTORS];
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
        loaded[i] = {};
        if (vector(i) < vectors) loaded[i] = reinterpret_cast<const Eight<Element>*>(x)[start + vector(i)];
    }
    const e4m3::Scale scale(block_max<WARPS>(maxima, rotation::absmax<axis::rotate>(loaded, vector, head_dim)));
    if (threadIdx.x == 0) scales[blockIdx.x] = scale.scale;
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
        const auto eight = rotation::applied<axis::rotate>(loaded[i], vector(i), head_dim);
        if (vector(i) < vectors) reinterpret_cast<uint2*>(codes)[start + vector(i)] = eight.codes(scale);
    }
}
