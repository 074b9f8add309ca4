// Element types, and vectors of eight elements (16 bytes) with their maxima and codes.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "common/e4m3.cuh"

__device__ inline float to_float(__half x) { return __half2float(x); }
__device__ inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }

// Two elements in a 32-bit register, the first in the lower half: their absolute values, the larger of each of two
// pairs, and one of them as a float. A bf16 is the upper half of a float.
template <typename Element>
struct Pair;

template <>
struct Pair<__half> {
    using Type = __half2;
    __device__ static float first(unsigned pair) { return __low2float(reinterpret_cast<const __half2&>(pair)); }
    __device__ static float second(unsigned pair) { return __high2float(reinterpret_cast<const __half2&>(pair)); }
};

template <>
struct Pair<__nv_bfloat16> {
    using Type = __nv_bfloat162;
    __device__ static float first(unsigned pair) { return __uint_as_float(pair << 16); }
    __device__ static float second(unsigned pair) { return __uint_as_float(pair & 0xffff0000u); }
};

// The larger absolute values of two pairs, element by element.
template <typename Element>
__device__ unsigned larger(unsigned a, unsigned b) {
    using Two = typename Pair<Element>::Type;
    const Two result = __hmax2(__habs2(reinterpret_cast<const Two&>(a)), __habs2(reinterpret_cast<const Two&>(b)));
    return reinterpret_cast<const unsigned&>(result);
}

// The largest absolute value of a pair.
template <typename Element>
__device__ float largest(unsigned pair) {
    return fmaxf(fabsf(Pair<Element>::first(pair)), fabsf(Pair<Element>::second(pair)));
}

// Eight elements.
template <typename Element>
struct alignas(16) Eight {
    unsigned pairs[4];

    // The pair of largest absolute values, also of another pair.
    __device__ unsigned largest_with(unsigned other) const {
        return larger<Element>(larger<Element>(other, pairs[0]),
                               larger<Element>(larger<Element>(pairs[1], pairs[2]), pairs[3]));
    }

    // Their codes, in order.
    __device__ uint2 codes(const e4m3::Scale& scale) const {
        unsigned two[4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
            two[i] = e4m3::encode2(scale.quotient(Pair<Element>::first(pairs[i])),
                                   scale.quotient(Pair<Element>::second(pairs[i])));
        return make_uint2(two[0] | two[1] << 16, two[2] | two[3] << 16);
    }
};

// The maximum over the warp, given to all lanes. The whole warp calls.
__device__ inline float warp_max(float x) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, distance));
    return x;
}

// The maximum over a block of WARPS warps, given to all threads. `maxima` has room for one of each warp.
template <int WARPS>
__device__ float block_max(float* maxima, float x) {
    x = warp_max(x);
    if (threadIdx.x % 32 == 0) maxima[threadIdx.x / 32] = x;
    __syncthreads();
    return warp_max(maxima[threadIdx.x % WARPS]);
}
