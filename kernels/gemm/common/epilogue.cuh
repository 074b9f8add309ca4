// What happens to an element of C before it is stored.
#pragma once

#include "common/elements.cuh"

// GELU in its tanh form, 0.5 x (1 + tanh u) = x / (1 + e^-2u), which has no cancellation.
__device__ inline float gelu(float x) {
    constexpr float LOG2_E = 1.4426950408889634f, ROOT = 0.7978845608028654f;  // sqrt(2 / pi)
    const float u = ROOT * fmaf(0.044715f * x, x * x, x);
    float e;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(-2.0f * LOG2_E * u));
    return __fdividef(x, 1.0f + fminf(e, 1e38f));  // 0 for divisors above 2^126, but NaN for infinity
}

// Column `col` of a row: the bias is read only if the epilogue has one.
template <bool BIAS, bool GELU, typename Output>
__device__ float finish(float sum, const Output* bias, int col) {
    if constexpr (BIAS) sum += to_float(bias[col]);
    return GELU ? gelu(sum) : sum;
}
