// Maxima and sums of exponentials over threads, in a fixed order: equal inputs give equal bits.
#pragma once

#include "common/elements.cuh"

// e^x by the hardware's 2^x, with about 2 ulp; e^-infinity is 0.
__device__ inline float exponential(float x) {
    constexpr float LOG2_E = 1.4426950408889634f;
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * LOG2_E));
    return y;
}

// What is subtracted before the exponential: the maximum, or 0 if there is no element, because inf - inf is NaN.
__device__ inline float origin_of(float maximum) { return maximum == negative_infinity() ? 0.0f : maximum; }

// The maximum and the sum over groups of WIDTH neighbouring lanes (a power of two), given to all of them. The whole warp
// calls.
template <int WIDTH>
__device__ float lane_max(float x) {
#pragma unroll
    for (int distance = WIDTH / 2; distance > 0; distance /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, distance));
    return x;
}
template <int WIDTH>
__device__ float lane_sum(float x) {
#pragma unroll
    for (int distance = WIDTH / 2; distance > 0; distance /= 2) x += __shfl_xor_sync(0xffffffffu, x, distance);
    return x;
}

// The sum of e^(x - maximum) over some elements of a row.
struct Share {
    float maximum;
    float sum;

    __device__ Share plus(Share other) const {
        const float both = fmaxf(maximum, other.maximum), origin = origin_of(both);
        return {both, sum * exponential(maximum - origin) + other.sum * exponential(other.maximum - origin)};
    }
};

// All shares of a row together, given to every lane. The whole warp calls.
template <int COUNT>
__device__ Share all_shares(const Share* shares) {
    constexpr int WIDTH = COUNT < 32 ? COUNT : 32;
    const int lane = threadIdx.x % WIDTH;
    Share mine = shares[lane];
    for (int i = lane + WIDTH; i < COUNT; i += WIDTH) mine = mine.plus(shares[i]);
    const float maximum = lane_max<WIDTH>(mine.maximum);
    return {maximum, lane_sum<WIDTH>(mine.sum * exponential(mine.maximum - origin_of(maximum)))};
}
