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

// The output type of a kernel: the type of its inputs, except that FP8 inputs give an fp16 output.
template <typename Input>
struct OutputOf {
    using Type = Input;
};
template <>
struct OutputOf<e4m3::Code> {
    using Type = __half;
};
