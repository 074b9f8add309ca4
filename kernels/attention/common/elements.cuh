// The element types by name: how each is converted to float, and the output type of a kernel that reads
// it.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "common/e4m3.cuh"

__device__ inline float to_float(__half x) { return __half2float(x); }
__device__ inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline float to_float(e4m3::Code x) { return __half2float(e4m3::decode(x)); }

__device__ inline void from_float(__half& to, float x) { to = __float2half_rn(x); }
__device__ inline void from_float(__nv_bfloat16& to, float x) { to = __float2bfloat16_rn(x); }

// Two numbers as one register of a 16-bit type, which the pointer names.
__device__ inline unsigned pack(float low, float high, const __half*) {
    const __half2 pair = __floats2half2_rn(low, high);
    return reinterpret_cast<const unsigned&>(pair);
}
__device__ inline unsigned pack(float low, float high, const __nv_bfloat16*) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<const unsigned&>(pair);
}

// The output type of a kernel: the type of its inputs. FP8 inputs give fp16, or bf16 if the caller wants it, which has the
// range of fp32.
template <typename Input, bool FP8_TO_BF16>
struct OutputOf {
    using Type = Input;
};
template <>
struct OutputOf<e4m3::Code, false> {
    using Type = __half;
};
template <>
struct OutputOf<e4m3::Code, true> {
    using Type = __nv_bfloat16;
};
