// The parts of PyTorch's headers that device code uses: number types, and names in declarations of host functions.
// Several headers have this text, so `#pragma once` is not enough.
#ifndef WARPSMITH_TORCH
#define WARPSMITH_TORCH

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#define C10_HOST_DEVICE __host__ __device__
#define C10_DEVICE __device__
#define C10_HOST __host__
#define C10_ALWAYS_INLINE inline
#define C10_LAUNCH_BOUNDS_1(n) __launch_bounds__(n)
#define C10_LAUNCH_BOUNDS_2(n, m) __launch_bounds__(n, m)
#define C10_LIKELY(x) (x)
#define C10_UNLIKELY(x) (x)
#define C10_WARP_SIZE 32
#define C10_RESTRICT __restrict__
#define CUDA_KERNEL_ASSERT(...)
#define CUDA_KERNEL_LOOP(i, n) for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += blockDim.x * gridDim.x)
#define TORCH_CHECK(...)
#define STD_TORCH_CHECK(...)
#define TORCH_INTERNAL_ASSERT(...)
#define C10_CUDA_CHECK(...)
#define C10_CUDA_KERNEL_LAUNCH_CHECK(...)

namespace c10 {
// A number of 16 or 8 bits, which computes as float.
#define WARPSMITH_NUMBER(NAME, BITS, NATIVE)                                                                              \
    struct alignas(sizeof(BITS)) NAME {                                                                                   \
        BITS x;                                                                                                           \
        struct from_bits_t {};                                                                                            \
        __device__ static constexpr from_bits_t from_bits() { return {}; }                                                \
        NAME() = default;                                                                                                 \
        __device__ constexpr NAME(BITS bits, from_bits_t) : x(bits) {}                                                    \
        __device__ NAME(float value) : NAME(NATIVE(value)) {}                                                             \
        __device__ NAME(const NATIVE& value) : x(*reinterpret_cast<const BITS*>(&value)) {}                               \
        __device__ operator float() const { return static_cast<float>(*reinterpret_cast<const NATIVE*>(this)); }          \
        __device__ operator NATIVE() const { return *reinterpret_cast<const NATIVE*>(this); }                             \
        __device__ NAME& operator+=(const NAME& other) { return *this = NAME(float(*this) + float(other)); }              \
        __device__ NAME& operator-=(const NAME& other) { return *this = NAME(float(*this) - float(other)); }              \
        __device__ NAME& operator*=(const NAME& other) { return *this = NAME(float(*this) * float(other)); }              \
        __device__ NAME& operator/=(const NAME& other) { return *this = NAME(float(*this) / float(other)); }              \
    };                                                                                                                    \
    __device__ inline NAME operator+(const NAME& a, const NAME& b) { return NAME(float(a) + float(b)); }                  \
    __device__ inline NAME operator-(const NAME& a, const NAME& b) { return NAME(float(a) - float(b)); }                  \
    __device__ inline NAME operator*(const NAME& a, const NAME& b) { return NAME(float(a) * float(b)); }                  \
    __device__ inline NAME operator/(const NAME& a, const NAME& b) { return NAME(float(a) / float(b)); }                  \
    __device__ inline NAME operator-(const NAME& a) { return NAME(-float(a)); }
WARPSMITH_NUMBER(Half, unsigned short, __half)
WARPSMITH_NUMBER(BFloat16, unsigned short, __nv_bfloat16)
WARPSMITH_NUMBER(Float8_e4m3fn, unsigned char, __nv_fp8_e4m3)
WARPSMITH_NUMBER(Float8_e5m2, unsigned char, __nv_fp8_e5m2)
#define WARPSMITH_BITS(NAME)                                                            \
    struct NAME {                                                                       \
        unsigned char x;                                                                \
        struct from_bits_t {};                                                          \
        __host__ __device__ static constexpr from_bits_t from_bits() { return {}; }     \
        NAME() = default;                                                               \
        __host__ __device__ constexpr NAME(unsigned char bits, from_bits_t) : x(bits) {} \
    };
WARPSMITH_BITS(Float8_e4m3fnuz)
WARPSMITH_BITS(Float8_e5m2fnuz)
#undef WARPSMITH_BITS
struct Float8_e8m0fnu { unsigned char x; };
#undef WARPSMITH_NUMBER
template <class T> struct complex { T real_, imag_; };
enum class ScalarType : int8_t {
    Byte, Char, Short, Int, Long, Half, Float, Double, ComplexHalf, ComplexFloat, ComplexDouble, Bool, QInt8, QUInt8, QInt32,
    BFloat16, QUInt4x2, QUInt2x4, Bits1x8, Bits2x4, Bits4x2, Bits8, Bits16, Float8_e5m2, Float8_e4m3fn, Float8_e5m2fnuz,
    Float8_e4m3fnuz, UInt16, UInt32, UInt64, Undefined
};
enum class DeviceType : int8_t { CPU, CUDA };
struct Device {};
struct Scalar {};
struct Storage {};
template <class T> struct ArrayRef {};
using IntArrayRef = ArrayRef<int64_t>;
template <class T> struct optional {};
struct string_view {};
namespace cuda {
struct CUDAStream {};
struct OptionalCUDAGuard {};
}
}
namespace at {
using namespace c10;
struct Tensor {
    template <class T> T* data_ptr() const;
    int64_t size(int64_t) const;
    int64_t numel() const;
};
using TensorList = ArrayRef<Tensor>;
struct Generator {};
struct PhiloxCudaState {};
template <class T> struct OpMathType { using type = T; };
template <> struct OpMathType<Half> { using type = float; };
template <> struct OpMathType<BFloat16> { using type = float; };
template <class T> using opmath_type = typename OpMathType<T>::type;
template <class T, bool = true> using acc_type = typename OpMathType<T>::type;
template <class T> struct DefaultPtrTraits { using PtrType = T*; };
template <class T> struct RestrictPtrTraits { using PtrType = T* __restrict__; };
// A tensor in device code: indexing takes one dimension after the other.
template <class T, size_t N, template <class> class Traits, class Index> struct TensorAccessor {
    typename Traits<T>::PtrType data_;
    const Index *sizes_, *strides_;
    __device__ TensorAccessor<T, N - 1, Traits, Index> operator[](Index i) const
    {
        return {data_ + i * strides_[0], sizes_ + 1, strides_ + 1};
    }
    __device__ Index size(int i) const { return sizes_[i]; }
    __device__ Index stride(int i) const { return strides_[i]; }
    __device__ T* data() const { return data_; }
};
template <class T, template <class> class Traits, class Index> struct TensorAccessor<T, 1, Traits, Index> {
    typename Traits<T>::PtrType data_;
    const Index *sizes_, *strides_;
    __device__ T& operator[](Index i) const { return data_[i * strides_[0]]; }
    __device__ Index size(int i) const { return sizes_[i]; }
    __device__ Index stride(int i) const { return strides_[i]; }
    __device__ T* data() const { return data_; }
};
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class Index = int64_t>
struct GenericPackedTensorAccessor {
    typename Traits<T>::PtrType data_;
    Index sizes_[N], strides_[N];
    __device__ decltype(auto) operator[](Index i) const
    {
        return TensorAccessor<T, N, Traits, Index>{data_, sizes_, strides_}[i];
    }
    __device__ Index size(int i) const { return sizes_[i]; }
    __device__ Index stride(int i) const { return strides_[i]; }
    __device__ T* data() const { return data_; }
};
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, Traits, int32_t>;
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, Traits, int64_t>;
namespace cuda {
using c10::cuda::CUDAStream;
}
}
namespace torch {
using namespace at;
namespace headeronly {
using namespace c10;
template <class T, size_t N, template <class> class Traits = at::DefaultPtrTraits, class Index = int64_t>
using HeaderOnlyGenericPackedTensorAccessor = at::GenericPackedTensorAccessor<T, N, Traits, Index>;
template <class T, size_t N, template <class> class Traits = at::DefaultPtrTraits, class Index = int64_t>
using HeaderOnlyTensorAccessor = at::TensorAccessor<T, N, Traits, Index>;
}
namespace stable {
using at::Tensor;
struct Device {};
namespace accelerator {
struct DeviceGuard {};
}
}
namespace autograd {
using variable_list = ArrayRef<at::Tensor>;
}
struct Library {};
struct TensorOptions {};
}
#endif
