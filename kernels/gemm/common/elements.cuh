// Element types: how each is converted to float, and the type of C and of the bias.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace e4m3 {

// FP8 E4M3 as it is in memory: s eeee mmm, (-1)^s 2^(e-7) 1.mmm, and 2^-6 0.mmm if e = 0; S.1111.111 is NaN.
struct Code {
    unsigned char bits;
};

}  // namespace e4m3

__device__ inline float to_float(__half x) { return __half2float(x); }
__device__ inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }

// Shifted into a half the code has an exponent that is 8 too small (bias 7 instead of 15), also if it is subnormal. The
// product with 2^8 is exact.
__device__ inline float to_float(e4m3::Code x) {
    if ((x.bits & 0x7f) == 0x7f) return __int_as_float(0x7fffffff);
    const unsigned short half = (x.bits & 0x80) << 8 | (x.bits & 0x7f) << 7;
    return __half2float(__ushort_as_half(half)) * 256.0f;
}

__device__ inline void from_float(__half& to, float x) { to = __float2half_rn(x); }
__device__ inline void from_float(__nv_bfloat16& to, float x) { to = __float2bfloat16_rn(x); }

// Two numbers in a 32-bit register, the first in the lower half.
__device__ inline unsigned pair_of(__half, float first, float second) {
    const __half2 pair = __floats2half2_rn(first, second);
    return reinterpret_cast<const unsigned&>(pair);
}
__device__ inline unsigned pair_of(__nv_bfloat16, float first, float second) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    return reinterpret_cast<const unsigned&>(pair);
}

// The type of C and of the bias: the type of A and B, or fp16 for FP8.
template <typename Input>
struct OutputOf {
    using Type = Input;
};
template <>
struct OutputOf<e4m3::Code> {
    using Type = __half;
};
