// FP8 E4M3 (the "fn" flavour: no infinities, S.1111.111 is NaN, largest finite value 448), decoded to half
// and encoded from float.
//
//   code   s eeee mmm      (-1)^s 2^(e-7) 1.mmm, e = 0: 2^-6 0.mmm
//   half   s eeeee mmmmmmmmmm, bias 15
//
// Every finite code is exactly a half. From sm_89 on the hardware converts; before that the integer form
// below gives the same bits, NaN payloads aside. Host, kernels and oracle share one definition: round to
// nearest even, saturate to +-448.
#pragma once

#include <cuda_fp16.h>

namespace e4m3 {

// One element as it is in memory.
struct Code {
    unsigned char bits;
};

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
constexpr bool HARDWARE_CONVERTS = true;
#else
constexpr bool HARDWARE_CONVERTS = false;
#endif

// Two codes, each in the high byte of a 16-bit lane, to two halves. Shifted into place the code is a half
// whose exponent is 8 too small (7 against 15), subnormals included; the multiplication by 2^8 is exact.
__device__ inline __half2 decode_spread(unsigned spread) {
    constexpr unsigned MAGNITUDE = 0x7f007f00u;
    unsigned halves = (spread & 0x80008000u) | ((spread & MAGNITUDE) >> 1);
    const __half2 value = __hmul2(reinterpret_cast<const __half2&>(halves), __float2half2_rn(256.0f));
    const unsigned nan = __vcmpeq2(spread & MAGNITUDE, MAGNITUDE) & 0x7fff7fffu;
    halves = reinterpret_cast<const unsigned&>(value) | nan;
    return reinterpret_cast<const __half2&>(halves);
}

// Two codes in the low 16 bits, first element in the lowest byte.
__device__ inline __half2 decode2(unsigned short codes) {
    if constexpr (HARDWARE_CONVERTS) {
        unsigned halves;
        asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(codes));
        return reinterpret_cast<const __half2&>(halves);
    } else {
        return decode_spread(__byte_perm(codes, 0, 0x1404));
    }
}

// Eight codes to the eight halves of one 16-byte chunk, order kept.
__device__ inline uint4 decode8(uint2 codes) {
    const __half2 halves[4] = {
        decode2(static_cast<unsigned short>(codes.x)), decode2(static_cast<unsigned short>(codes.x >> 16)),
        decode2(static_cast<unsigned short>(codes.y)), decode2(static_cast<unsigned short>(codes.y >> 16))};
    const unsigned* words = reinterpret_cast<const unsigned*>(halves);
    return make_uint4(words[0], words[1], words[2], words[3]);
}

__device__ inline __half decode(Code code) { return __low2half(decode2(code.bits)); }

// Round to nearest even, saturating at +-448; NaN stays NaN.
__device__ inline Code encode(float value) {
    if constexpr (HARDWARE_CONVERTS) {
        unsigned short codes;
        asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(0.0f), "f"(value));
        return {static_cast<unsigned char>(codes)};
    } else {
        constexpr unsigned LARGEST = 0x43e00000u;        // 448
        constexpr unsigned SMALLEST_NORMAL = 0x3c800000u;  // 2^-6
        constexpr unsigned INFINITE = 0x7f800000u;
        constexpr int DROPPED = 20;                      // 23 mantissa bits to 3
        constexpr unsigned REBIAS = (127 - 7) << 3;      // float's exponent bias to ours, in units of a code
        const unsigned bits = __float_as_uint(value);
        const unsigned sign = (bits >> 24) & 0x80u;
        const unsigned magnitude = bits & 0x7fffffffu;
        if (magnitude > INFINITE) return {0x7f};
        if (magnitude >= LARGEST) return {static_cast<unsigned char>(sign | 0x7e)};
        if (magnitude < SMALLEST_NORMAL)  // steps of 2^-9; rounding up to 8 steps is the smallest normal's code
            return {static_cast<unsigned char>(sign | __float2int_rn(__uint_as_float(magnitude) * 512.0f))};
        const unsigned to_even = (1u << (DROPPED - 1)) - 1 + ((magnitude >> DROPPED) & 1);
        return {static_cast<unsigned char>(sign | (((magnitude + to_even) >> DROPPED) - REBIAS))};
    }
}

// Four at once, the first into the lowest byte; only for hardware that converts.
__device__ inline unsigned encode4(float x0, float x1, float x2, float x3) {
    unsigned short low, high;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(low) : "f"(x1), "f"(x0));
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(high) : "f"(x3), "f"(x2));
    return low | static_cast<unsigned>(high) << 16;
}

// The numbers of four codes, the lowest byte first, and the codes of four numbers; only for hardware that converts. The
// parts of a register are named in the assembly: from C++ the compiler makes extra instructions that copy them.
__device__ inline void decode4(unsigned codes, __half2& x01, __half2& x23) {
    asm("{\n\t.reg .b16 low, high;\n\tmov.b32 {low, high}, %2;\n\t"
        "cvt.rn.f16x2.e4m3x2 %0, low;\n\tcvt.rn.f16x2.e4m3x2 %1, high;\n\t}"
        : "=r"(reinterpret_cast<unsigned&>(x01)), "=r"(reinterpret_cast<unsigned&>(x23))
        : "r"(codes));
}
__device__ inline unsigned encode4(__half2 x01, __half2 x23) {
    unsigned codes;
    asm("{\n\t.reg .b16 low, high;\n\tcvt.rn.satfinite.e4m3x2.f16x2 low, %1;\n\t"
        "cvt.rn.satfinite.e4m3x2.f16x2 high, %2;\n\tmov.b32 %0, {low, high};\n\t}"
        : "=r"(codes)
        : "r"(reinterpret_cast<const unsigned&>(x01)), "r"(reinterpret_cast<const unsigned&>(x23)));
    return codes;
}

// The rounding errors of encode4 for four numbers within half's range, as codes; `codes` is its result.
__device__ inline unsigned encode4_residuals(float x0, float x1, float x2, float x3, unsigned codes) {
    __half2 rounded01, rounded23;
    decode4(codes, rounded01, rounded23);
    return encode4(__hsub2(__floats2half2_rn(x0, x1), rounded01), __hsub2(__floats2half2_rn(x2, x3), rounded23));
}

}  // namespace e4m3
