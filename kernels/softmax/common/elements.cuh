// Element types, and a row as pieces of 16 bytes.
//
// Tensors start at multiples of 16 bytes. Rows of an odd length start at any multiple of an element's size, but 16-byte
// accesses need multiples of 16. A row is therefore cut at multiples of 16 bytes of the tensor, not of its own start:
//
//   bytes      0               16              32              48
//   row                  | first  |      whole     |  last  |
//
// Whole pieces are loaded and stored by one instruction, the first and the last one element by element if they are not
// whole. Elements outside the row are -infinity: their exponentials are 0.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ inline float to_float(__half x) { return __half2float(x); }
__device__ inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline float to_float(float x) { return x; }

__device__ inline void from_float(__half& to, float x) { to = __float2half_rn(x); }
__device__ inline void from_float(__nv_bfloat16& to, float x) { to = __float2bfloat16_rn(x); }
__device__ inline void from_float(float& to, float x) { to = x; }

__device__ inline float negative_infinity() { return __int_as_float(0xff800000); }

// Stores 16 bytes at a 16-byte boundary by one instruction; the compiler may split a plain store.
__device__ inline void store16(void* to, const unsigned (&w)[4]) {
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};"
                 :: "l"(to), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]) : "memory");
}

// The same; the caches give up these bytes first.
__device__ inline void store16_streaming(void* to, const unsigned (&w)[4]) {
    asm volatile("st.global.cs.v4.b32 [%0], {%1, %2, %3, %4};"
                 :: "l"(to), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]) : "memory");
}

// 16 bytes of elements. They stay in 32-bit registers until they are used.
template <typename Element>
struct alignas(16) Piece {
    static constexpr int COUNT = 16 / sizeof(Element);

    unsigned words[4];

    __device__ float get(int i) const;
    __device__ void set(const float (&from)[COUNT]);

    // The largest element.
    __device__ float maximum() const;

    // Hides from the compiler that the elements stay the same; `zero` is 0. It would otherwise keep the floats of the
    // last `get` in registers, which are twice as many for elements of 2 bytes.
    __device__ void renew(unsigned zero) {
#pragma unroll
        for (int i = 0; i < 4; ++i) words[i] ^= zero;
    }
};

template <>
__device__ inline float Piece<float>::get(int i) const { return __uint_as_float(words[i]); }
template <>
__device__ inline void Piece<float>::set(const float (&from)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) words[i] = __float_as_uint(from[i]);
}

template <>
__device__ inline float Piece<float>::maximum() const {
    return fmaxf(fmaxf(get(0), get(1)), fmaxf(get(2), get(3)));
}

template <>
__device__ inline float Piece<__half>::get(int i) const {
    const __half2 pair = reinterpret_cast<const __half2&>(words[i / 2]);
    return i % 2 == 0 ? __low2float(pair) : __high2float(pair);
}
template <>
__device__ inline void Piece<__half>::set(const float (&from)[8]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const __half2 pair = __floats2half2_rn(from[2 * i], from[2 * i + 1]);
        words[i] = reinterpret_cast<const unsigned&>(pair);
    }
}

template <>
__device__ inline float Piece<__half>::maximum() const {
    const __half2* pairs = reinterpret_cast<const __half2*>(words);
    const __half2 largest = __hmax2(__hmax2(pairs[0], pairs[1]), __hmax2(pairs[2], pairs[3]));
    return fmaxf(__low2float(largest), __high2float(largest));
}

// A bf16 is the upper half of a float.
template <>
__device__ inline float Piece<__nv_bfloat16>::get(int i) const {
    return __uint_as_float(i % 2 == 0 ? words[i / 2] << 16 : words[i / 2] & 0xffff0000u);
}
template <>
__device__ inline void Piece<__nv_bfloat16>::set(const float (&from)[8]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const __nv_bfloat162 pair = __floats2bfloat162_rn(from[2 * i], from[2 * i + 1]);
        words[i] = reinterpret_cast<const unsigned&>(pair);
    }
}

template <>
__device__ inline float Piece<__nv_bfloat16>::maximum() const {
    const __nv_bfloat162* pairs = reinterpret_cast<const __nv_bfloat162*>(words);
    const __nv_bfloat162 largest = __hmax2(__hmax2(pairs[0], pairs[1]), __hmax2(pairs[2], pairs[3]));
    return fmaxf(__low2float(largest), __high2float(largest));
}

// A row of x and its row of y. SCALAR: every piece element by element.
// STREAMING: stores of whole pieces are streaming.
template <typename Element, bool SCALAR, bool STREAMING>
struct Row {
    static constexpr int COUNT = Piece<Element>::COUNT;

    const Element* from;  // where the first piece starts; up to COUNT - 1 elements before the row
    Element* to;
    int start;  // first element of the row, counted from there
    int end;    // one past its last

    // A row that does not exist is empty.
    __device__ Row(const Element* x, Element* y, long long row, int cols, bool exists) {
        start = exists ? static_cast<int>(row * cols % COUNT) : 0;
        end = exists ? start + cols : 0;
        from = x + row * cols - start;
        to = y + row * cols - start;
    }

    __device__ int pieces() const { return (end + COUNT - 1) / COUNT; }
    __device__ bool is_whole(int piece) const {
        return !SCALAR && piece * COUNT >= start && piece * COUNT + COUNT <= end;
    }
    __device__ bool has(int element) const { return element >= start && element < end; }

    __device__ Piece<Element> load(int piece) const {
        if (is_whole(piece)) return *reinterpret_cast<const Piece<Element>*>(from + piece * COUNT);
        float elements[COUNT];
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            const int element = piece * COUNT + i;
            elements[i] = has(element) ? to_float(from[element]) : negative_infinity();
        }
        Piece<Element> result;
        result.set(elements);
        return result;
    }

    __device__ void store(int piece, const float (&elements)[COUNT]) const {
        if (is_whole(piece)) {
            Piece<Element> result;
            result.set(elements);
            STREAMING ? store16_streaming(to + piece * COUNT, result.words) : store16(to + piece * COUNT, result.words);
            return;
        }
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            const int element = piece * COUNT + i;
            if (has(element)) from_float(to[element], elements[i]);
        }
    }
};
