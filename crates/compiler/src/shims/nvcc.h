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

// Built-in functions of host compilers, which nvcc translates for device code.
#define __builtin_clz(x) __clz(static_cast<int>(x))
#define __builtin_clzll(x) __clzll(static_cast<long long>(x))
#define __builtin_ctz(x) (__ffs(static_cast<int>(x)) - 1)
#define __builtin_ctzll(x) (__ffsll(static_cast<long long>(x)) - 1)
#define __builtin_popcount(x) __popc(x)
#define __builtin_popcountll(x) __popcll(x)

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
