// What nvcc includes in every file without being asked, as far as device code uses it. NVRTC includes nothing.
#pragma once

typedef unsigned int uint;
typedef unsigned short ushort;
typedef unsigned long ulong;

// `using namespace std;` needs the namespace, also without a header.
namespace std {}

#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#define HUGE_VALF INFINITY
#define M_E 2.71828182845904523536
#define M_LOG2E 1.44269504088896340736
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#define RAND_MAX 2147483647
#define EXIT_SUCCESS 0
#define EXIT_FAILURE 1

// C++17 has removed it; nvcc ignores it with a warning.
#define register

// Words of GNU C++.
#define __extension__

// Built-in functions of host compilers, which nvcc translates for device code. They are also used in constant expressions.
namespace warpsmith_nvcc {
template <class T> __host__ __device__ constexpr int count_bits(T x)
{
    int bits = 0;
    for (; x != 0; x &= x - 1) ++bits;
    return bits;
}
template <class T> __host__ __device__ constexpr int leading_zeros(T x)
{
    int zeros = 0;
    for (T bit = T(1) << (8 * sizeof(T) - 1); bit != 0 && (x & bit) == 0; bit >>= 1) ++zeros;
    return zeros;
}
#define WARPSMITH_BUILTIN(NAME, TYPE, CONSTANT, DEVICE)                                    \
    __host__ __device__ constexpr int NAME(TYPE x)                                          \
    {                                                                                       \
        return __builtin_is_constant_evaluated() ? CONSTANT : DEVICE;                       \
    }
WARPSMITH_BUILTIN(clz, unsigned, leading_zeros(x), __clz(static_cast<int>(x)))
WARPSMITH_BUILTIN(clzll, unsigned long long, leading_zeros(x), __clzll(static_cast<long long>(x)))
WARPSMITH_BUILTIN(ctz, unsigned, count_bits((x & -x) - 1), __ffs(static_cast<int>(x)) - 1)
WARPSMITH_BUILTIN(ctzll, unsigned long long, count_bits((x & -x) - 1), __ffsll(static_cast<long long>(x)) - 1)
WARPSMITH_BUILTIN(popcount, unsigned, count_bits(x), __popc(x))
WARPSMITH_BUILTIN(popcountll, unsigned long long, count_bits(x), __popcll(x))
#undef WARPSMITH_BUILTIN
}
#define __builtin_clz(x) warpsmith_nvcc::clz(x)
#define __builtin_clzl(x) warpsmith_nvcc::clzll(x)
#define __builtin_clzll(x) warpsmith_nvcc::clzll(x)
#define __builtin_ctz(x) warpsmith_nvcc::ctz(x)
#define __builtin_ctzl(x) warpsmith_nvcc::ctzll(x)
#define __builtin_ctzll(x) warpsmith_nvcc::ctzll(x)
#define __builtin_popcount(x) warpsmith_nvcc::popcount(x)
#define __builtin_popcountl(x) warpsmith_nvcc::popcountll(x)
#define __builtin_popcountll(x) warpsmith_nvcc::popcountll(x)

// Types of the host's libraries that stand in classes of headers. Only host code uses their members.
typedef struct WarpsmithFile FILE;
typedef int pid_t;
struct timeval {
    long tv_sec, tv_usec;
};
int gettimeofday(timeval*, void*);

// Types of the runtime that stand in declarations of host functions and in members of classes.
typedef struct CUstream_st* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;
