// Element types, and vectors of elements that one instruction loads or stores.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ inline float to_float(__half x) { return __half2float(x); }
__device__ inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }

__device__ inline void from_float(__half& to, float x) { to = __float2half_rn(x); }
__device__ inline void from_float(__nv_bfloat16& to, float x) { to = __float2bfloat16_rn(x); }

// Two elements in a 32-bit register, the first in the lower half.
template <typename Element>
__device__ unsigned pair_of(float first, float second);
template <>
__device__ inline unsigned pair_of<__half>(float first, float second) {
    const __half2 pair = __floats2half2_rn(first, second);
    return reinterpret_cast<const unsigned&>(pair);
}
template <>
__device__ inline unsigned pair_of<__nv_bfloat16>(float first, float second) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    return reinterpret_cast<const unsigned&>(pair);
}

// One of them as a float. A bf16 is the upper half of a float.
template <typename Element>
__device__ float pair_half(unsigned pair, bool second);
template <>
__device__ inline float pair_half<__half>(unsigned pair, bool second) {
    const __half2 halves = reinterpret_cast<const __half2&>(pair);
    return second ? __high2float(halves) : __low2float(halves);
}
template <>
__device__ inline float pair_half<__nv_bfloat16>(unsigned pair, bool second) {
    return __uint_as_float(second ? pair & 0xffff0000u : pair << 16);
}

// Stores 16 bytes at a 16-byte boundary; the caches give them up first.
__device__ inline void store16_streaming(void* to, const unsigned (&w)[4]) {
    asm volatile("st.global.cs.v4.b32 [%0], {%1, %2, %3, %4};"
                 :: "l"(to), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]) : "memory");
}

// N elements at an address that is a multiple of their size. Pairs stay in 32-bit registers until they are used: the
// compiler would otherwise keep every 16-bit element in a register of its own.
template <typename Element, int N>
struct alignas(2 * N) Vector {
    unsigned pairs[N / 2];

    __device__ float get(int i) const { return pair_half<Element>(pairs[i / 2], i % 2); }
    __device__ void set(const float (&from)[N]) {
#pragma unroll
        for (int i = 0; i < N; i += 2) pairs[i / 2] = pair_of<Element>(from[i], from[i + 1]);
    }
};

template <typename Element>
struct Vector<Element, 1> {
    Element element;

    __device__ float get(int) const { return to_float(element); }
    __device__ void set(const float (&from)[1]) { from_float(element, from[0]); }
};
