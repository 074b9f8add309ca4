// Constants and small steps of a softmax taken in base 2: exp(x) = 2^(x * log2 e), with log2 e folded into
// the score scale.
#pragma once

constexpr float LOG2_E = 1.4426950408889634f;
constexpr float LN_2 = 0.6931471805599453f;

__device__ inline float negative_infinity() { return __int_as_float(0xff800000); }

// The number to subtract from a row's scores before 2^x. A row without a visible key so far has maximum -inf, and
// -inf - -inf is NaN: subtracting 0 instead leaves every weight at 2^-inf = 0.
__device__ inline float exponent_origin(float row_maximum) {
    return row_maximum == negative_infinity() ? 0.0f : row_maximum;
}

// A row's log-sum-exp in natural logarithm, from its maximum (base 2) and its sum of 2^(score - maximum). No
// visible key: -inf.
__device__ inline float log_sum_exp(float row_maximum, float row_sum) {
    return row_sum > 0.0f ? (row_maximum + log2f(row_sum)) * LN_2 : negative_infinity();
}

// The factor of a row's unnormalised output. Without a visible key it is 0, so that the row is zeros.
__device__ inline float normaliser(float row_sum, float v_scale) {
    return row_sum > 0.0f ? v_scale / row_sum : 0.0f;
}

// tanh of a score. The approximate instruction has only 11 bits. 1 - 2 / (1 + e^2x) has an error of 2^-23, which is much of
// a small result; these are a polynomial.
__device__ inline float tanh_of(float x) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(2.0f * LOG2_E * x));
    const float large = 1.0f - __fdividef(2.0f, 1.0f + power);
    const float square = x * x;
    const float series = fmaf(fmaf(fmaf(62.0f / 2835, square, -17.0f / 315), square, 2.0f / 15), square, -1.0f / 3);
    return fabsf(x) < 0.25f ? fmaf(series * square, x, x) : large;
}

// Over aligned groups of LANES lanes; every lane gets the result. All lanes of the warp call together.
template <int LANES>
__device__ float group_max(float x) {
    static_assert(LANES >= 1 && LANES <= 32 && (LANES & (LANES - 1)) == 0, "a power of two within a warp");
#pragma unroll
    for (int distance = LANES / 2; distance > 0; distance /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, distance));
    return x;
}

template <int LANES>
__device__ float group_sum(float x) {
    static_assert(LANES >= 1 && LANES <= 32 && (LANES & (LANES - 1)) == 0, "a power of two within a warp");
#pragma unroll
    for (int distance = LANES / 2; distance > 0; distance /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, distance);
    return x;
}
