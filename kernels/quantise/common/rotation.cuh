// A random rotation of a token x of n elements, a power of two: y = H (s x) / sqrt(n).
//
// H is the Hadamard matrix, s has signs that look random. Products of two rotated tokens are those of the tokens. An
// element that is much larger than the others is spread over the whole token, so the scale is smaller.
//
// Eight elements are in a lane, n / 8 neighbouring lanes have a token. H is log2(n) steps of sums and differences: three
// within a lane, the others between lanes.
#pragma once

#include "common/elements.cuh"

namespace rotation {

// The signs of elements 8 group to 8 group + 7, a set bit for minus.
__device__ inline unsigned sign_bits(unsigned group) {
    unsigned bits = (group + 1) * 2654435761u;
    bits ^= bits >> 15;
    return bits * 2246822519u >> 24;
}

// Eight elements of a token after the rotation.
struct Eight {
    float x[8];

    // `group` is the place of the eight in their token of `head_dim` elements. All lanes of the warp call.
    template <typename Element>
    __device__ Eight(const ::Eight<Element>& from, unsigned group, int head_dim) {
        const unsigned signs = sign_bits(group);
        const float factor = __frsqrt_rn(static_cast<float>(head_dim));
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const unsigned pair = from.pairs[i / 2];
            const float value = i % 2 == 0 ? Pair<Element>::first(pair) : Pair<Element>::second(pair);
            x[i] = (signs >> i & 1) != 0 ? -value : value;
        }
#pragma unroll
        for (int distance = 1; distance < 8; distance *= 2) {
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                if ((i & distance) != 0) continue;
                const float low = x[i], high = x[i + distance];
                x[i] = low + high;
                x[i + distance] = low - high;
            }
        }
        for (int distance = 1; distance < head_dim / 8; distance *= 2) {
            const bool upper = (group & distance) != 0;
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                const float other = __shfl_xor_sync(0xffffffffu, x[i], distance);
                x[i] = upper ? other - x[i] : x[i] + other;
            }
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) x[i] *= factor;
    }

    // The largest absolute value, also of another one.
    __device__ float largest_with(float other) const {
#pragma unroll
        for (int i = 0; i < 8; ++i) other = fmaxf(other, fabsf(x[i]));
        return other;
    }

    // Their codes, in order.
    __device__ uint2 codes(const e4m3::Scale& scale) const {
        unsigned two[4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
            two[i] = e4m3::encode2(scale.quotient(x[2 * i]), scale.quotient(x[2 * i + 1]));
        return make_uint2(two[0] | two[1] << 16, two[2] | two[3] << 16);
    }
};

// Eight elements as a candidate quantises them: rotated, or as they are.
template <bool ROTATE, typename Element>
__device__ auto applied(const ::Eight<Element>& from, int vector_of_head, int head_dim) {
    if constexpr (ROTATE) {
        return Eight(from, vector_of_head % (head_dim / 8), head_dim);
    } else {
        return from;
    }
}

// The largest absolute value of COUNT such vectors. Those as they are need no conversion for each element.
template <bool ROTATE, typename Element, int COUNT, typename Place>
__device__ float absmax(const ::Eight<Element> (&vectors)[COUNT], const Place& vector_of_head, int head_dim) {
    if constexpr (ROTATE) {
        float most = 0.0f;
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
            most = applied<true>(vectors[i], vector_of_head(i), head_dim).largest_with(most);
        return most;
    } else {
        unsigned pair = 0;
#pragma unroll
        for (int i = 0; i < COUNT; ++i) pair = vectors[i].largest_with(pair);
        return largest<Element>(pair);
    }
}

}  // namespace rotation
