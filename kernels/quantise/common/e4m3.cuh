// The quantiser: the scale of a head, and the code of an element.
//
//   scale   absmax / 448 in fp32, or 1 if absmax <= 1e-6
//   code    x / scale rounded to nearest even; |x / scale| is at most 448, E4M3's largest number
//
// E4M3 is s eeee mmm: (-1)^s 2^(e-7) 1.mmm, and 2^-6 0.mmm if e = 0. From sm_89 on the hardware rounds; the integer form
// below gives the same codes on older hardware. Inputs must be finite.
#pragma once

namespace e4m3 {

// One element as it is in memory.
struct Code {
    unsigned char bits;
};

// A head's scale and its reciprocal.
struct Scale {
    float scale;
    float inverse;

    __device__ explicit Scale(float absmax)
        : scale(absmax <= 1e-6f ? 1.0f : __fdiv_rn(absmax, 448.0f)), inverse(__frcp_rn(scale)) {}

    // x / scale, correctly rounded: the product with the reciprocal, corrected by its remainder. A plain division gives
    // the same number with more instructions.
    __device__ float quotient(float x) const {
        const float near = x * inverse;
        return fmaf(fmaf(-near, scale, x), inverse, near);
    }
};

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
constexpr bool HARDWARE_CONVERTS = true;
#else
constexpr bool HARDWARE_CONVERTS = false;
#endif

// One number to a code, saturating.
__device__ inline unsigned encode(float value) {
    constexpr unsigned LARGEST = 0x43e00000u;          // 448
    constexpr unsigned SMALLEST_NORMAL = 0x3c800000u;  // 2^-6
    constexpr unsigned INFINITE = 0x7f800000u;
    constexpr int DROPPED = 20;                        // 23 mantissa bits to 3
    constexpr unsigned REBIAS = (127 - 7) << 3;        // float's exponent bias to E4M3's, in units of a code
    const unsigned bits = __float_as_uint(value);
    const unsigned sign = (bits >> 24) & 0x80u;
    const unsigned magnitude = bits & 0x7fffffffu;
    if (magnitude > INFINITE) return 0x7f;
    if (magnitude >= LARGEST) return sign | 0x7e;
    if (magnitude < SMALLEST_NORMAL)  // steps of 2^-9; rounding up to 8 steps is the smallest normal's code
        return sign | __float2int_rn(__uint_as_float(magnitude) * 512.0f);
    const unsigned to_even = (1u << (DROPPED - 1)) - 1 + ((magnitude >> DROPPED) & 1);
    return sign | (((magnitude + to_even) >> DROPPED) - REBIAS);
}

// Two numbers to two codes, the first in the lower byte.
__device__ inline unsigned encode2(float first, float second) {
    if constexpr (HARDWARE_CONVERTS) {
        unsigned short codes;
        asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(second), "f"(first));
        return codes;
    } else {
        return encode(first) | encode(second) << 8;
    }
}

}  // namespace e4m3
