// Products of a warpgroup (wgmma) with fp32 accumulators, for sm_90a; their descriptors and fences; the division of
// registers between warpgroups. One instruction each. All 128 threads of a warpgroup call together.
//
// d[64 x N] (+)= a[64 x 16] b[16 x N] in fp16 or bf16; in E4M3 the depth is 32. Lane l of warp w holds the row
// 16 w + l / 4 and the row 8 below. d[4 j] and d[4 j + 1] are columns 8 j + 2 (l % 4) and the next of the upper row,
// d[4 j + 2] and d[4 j + 3] those of the lower. A left factor in registers has the two 8-column blocks of a step one
// after the other, packed in pairs. In E4M3 a register has four neighbours along the depth: 4 (l % 4) and the next
// three of the upper row, the same of the lower row, then 16 further in both rows.
//
// A product is asynchronous. Until the wait, nothing may touch its accumulators, its registers or the shared memory
// that it reads. The compiler serialises products if it cannot prove this; the build then fails.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "common/e4m3.cuh"

namespace wgmma {

// ---- descriptors of matrices in shared memory, in swizzled rows of 128, 64 or 32 bytes ----

// `leading`, `stride`: distances in bytes. The matrix begins on a multiple of 8 rows, or within the first row of one.
template <int ROW_BYTES>
__device__ unsigned long long descriptor(unsigned shared, unsigned leading, unsigned stride) {
    static_assert(ROW_BYTES == 128 || ROW_BYTES == 64 || ROW_BYTES == 32, "the widths of the swizzle");
    constexpr unsigned long long SWIZZLE = ROW_BYTES == 128 ? 1 : ROW_BYTES == 64 ? 2 : 3;
    return static_cast<unsigned long long>((shared & 0x3ffff) >> 4) |
           static_cast<unsigned long long>(leading >> 4) << 16 |
           static_cast<unsigned long long>(stride >> 4) << 32 | SWIZZLE << 62;
}

// Rows along the depth of the product, as Q and K lie: the next step of the depth is 32 bytes on, up to the row's end.
template <int ROW_BYTES>
__device__ unsigned long long rows_along_depth(unsigned shared) {
    return descriptor<ROW_BYTES>(shared, 16, 8 * ROW_BYTES);
}

// Rows along N, as V lies: the next 16 of the depth are 2048 bytes on, the next 64 columns in the next box.
__device__ inline unsigned long long rows_along_columns(unsigned shared, unsigned box_bytes) {
    return descriptor<128>(shared, box_bytes, 1024);
}

// The descriptor of the same matrix this many bytes on.
__device__ inline unsigned long long advance(unsigned long long descriptor, unsigned bytes) {
    return descriptor + (bytes >> 4);
}

// ---- order ----

// Before the first product after anything else touched accumulators or left factors in registers.
__device__ inline void fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// Closes the group of products since the last call.
__device__ inline void group_end() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most PENDING of the newest groups are still under way.
template <int PENDING>
__device__ void groups_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(PENDING) : "memory");
}

// Call it after the wait; otherwise the compiler may read accumulators before the wait.
template <int COUNT>
__device__ __forceinline__ void keep_below(float (&d)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) asm volatile("" : "+f"(d[i]) :: "memory");
}

// ---- registers ----

// Lowers or raises the number of registers of the warpgroup's threads. The block must have a launch bound.
template <int REGISTERS>
__device__ void lower_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(REGISTERS));
}
template <int REGISTERS>
__device__ void raise_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(REGISTERS));
}

// Writes four 8x8 matrices of 16-bit elements to shared memory: `load_matrix_x4` of ptx.cuh the other way round.
__device__ inline void store_matrix_x4(unsigned row, const unsigned (&r)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                 :: "r"(row), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
}

// ---- products ----

// Products<Element, N>: `from_shared` multiplies two matrices in shared memory, both with rows along the depth;
// `from_shared_along_columns` the same, where the rows of the right one lie along N; `from_columns` where the rows of the left
// one lie along M, too; `from_registers` multiplies a left factor in registers by a matrix with rows along N, in E4M3 along the depth;
// `from_registers_along_depth` by one with rows along the depth. Where `add` is false the accumulators are overwritten.
template <typename Element, int N>
struct Products;

#define WGMMA_NUMBERS_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define WGMMA_NUMBERS_32 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_NUMBERS_40 WGMMA_NUMBERS_32 ", " \
    "%32, %33, %34, %35, %36, %37, %38, %39"
#define WGMMA_NUMBERS_48 WGMMA_NUMBERS_40 ", " \
    "%40, %41, %42, %43, %44, %45, %46, %47"
#define WGMMA_NUMBERS_64 WGMMA_NUMBERS_48 ", " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_NUMBERS_128 WGMMA_NUMBERS_64 ", " \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, " \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

#define WGMMA_FLOATS_8(i)                                                                                        \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
        "+f"(d[i + 7])
#define WGMMA_FLOATS_16 WGMMA_FLOATS_8(0), WGMMA_FLOATS_8(8)
#define WGMMA_FLOATS_32 \
    WGMMA_FLOATS_8(0), WGMMA_FLOATS_8(8), WGMMA_FLOATS_8(16), WGMMA_FLOATS_8(24)
#define WGMMA_FLOATS_40 WGMMA_FLOATS_32, \
    WGMMA_FLOATS_8(32)
#define WGMMA_FLOATS_48 WGMMA_FLOATS_40, \
    WGMMA_FLOATS_8(40)
#define WGMMA_FLOATS_64 WGMMA_FLOATS_48, \
    WGMMA_FLOATS_8(48), WGMMA_FLOATS_8(56)
#define WGMMA_FLOATS_128 WGMMA_FLOATS_64, \
    WGMMA_FLOATS_8(64), WGMMA_FLOATS_8(72), WGMMA_FLOATS_8(80), WGMMA_FLOATS_8(88), WGMMA_FLOATS_8(96), \
    WGMMA_FLOATS_8(104), WGMMA_FLOATS_8(112), WGMMA_FLOATS_8(120)

// COUNT accumulators; A to F are the numbers of the operands after them. A step of the depth has 32 bytes. 16-bit types
// tell for each matrix in shared memory whether its rows lie along the depth (0) or not (1).
#define WGMMA_FROM_REGISTERS(NAME, TYPE, N, DEPTH, LAYOUT, COUNT, A, B, C, D, E, F)                                       \
    __device__ static __forceinline__ void NAME(float (&d)[COUNT], unsigned a0, unsigned a1, unsigned a2, unsigned a3,    \
                                                unsigned long long b, int add) {                                          \
        asm volatile("{ .reg .pred p; setp.ne.b32 p, " F ", 0;\n\twgmma.mma_async.sync.aligned.m64n" #N "k" #DEPTH       \
                     ".f32." TYPE "." TYPE " {" WGMMA_NUMBERS_##COUNT "}, {" A ", " B ", " C ", " D "}, " E               \
                     ", p, 1, 1" LAYOUT "; }"                                                                             \
                     : WGMMA_FLOATS_##COUNT : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(add) : "memory");           \
    }
#define WGMMA_FROM_SHARED(NAME, TYPE, N, DEPTH, LEFT_LAYOUT, RIGHT_LAYOUT, COUNT, A, B, C)                                \
    __device__ static __forceinline__ void NAME(float (&d)[COUNT], unsigned long long a, unsigned long long b, int add) { \
        asm volatile("{ .reg .pred p; setp.ne.b32 p, " C ", 0;\n\twgmma.mma_async.sync.aligned.m64n" #N "k" #DEPTH       \
                     ".f32." TYPE "." TYPE " {" WGMMA_NUMBERS_##COUNT "}, " A ", " B ", p, 1, 1" LEFT_LAYOUT RIGHT_LAYOUT \
                     "; }"                                                                                                \
                     : WGMMA_FLOATS_##COUNT : "l"(a), "l"(b), "r"(add) : "memory");                                       \
    }
#define WGMMA_PRODUCTS(ELEMENT, TYPE, N, DEPTH, DEPTH_LAYOUT, RIGHT_LAYOUT, COUNT, A, B, C, D, E, F)                      \
    template <>                                                                                                           \
    struct Products<ELEMENT, N> {                                                                                         \
        WGMMA_FROM_SHARED(from_shared, TYPE, N, DEPTH, DEPTH_LAYOUT, DEPTH_LAYOUT, COUNT, A, B, C)                        \
        WGMMA_FROM_SHARED(from_shared_along_columns, TYPE, N, DEPTH, DEPTH_LAYOUT, RIGHT_LAYOUT, COUNT, A, B, C)          \
        WGMMA_FROM_SHARED(from_columns, TYPE, N, DEPTH, RIGHT_LAYOUT, RIGHT_LAYOUT, COUNT, A, B, C)                       \
        WGMMA_FROM_REGISTERS(from_registers, TYPE, N, DEPTH, RIGHT_LAYOUT, COUNT, A, B, C, D, E, F)                       \
        WGMMA_FROM_REGISTERS(from_registers_along_depth, TYPE, N, DEPTH, DEPTH_LAYOUT, COUNT, A, B, C, D, E, F)           \
    };
#define WGMMA_16_BIT(ELEMENT, TYPE, N, COUNT, A, B, C, D, E, F) \
    WGMMA_PRODUCTS(ELEMENT, TYPE, N, 16, ", 0", ", 1", COUNT, A, B, C, D, E, F)
#define WGMMA_E4M3(N, COUNT, A, B, C, D, E, F) \
    WGMMA_PRODUCTS(e4m3::Code, "e4m3", N, 32, "", "", COUNT, A, B, C, D, E, F)

WGMMA_16_BIT(__half, "f16", 32, 16, "%16", "%17", "%18", "%19", "%20", "%21")
WGMMA_16_BIT(__half, "f16", 64, 32, "%32", "%33", "%34", "%35", "%36", "%37")
WGMMA_16_BIT(__half, "f16", 80, 40, "%40", "%41", "%42", "%43", "%44", "%45")
WGMMA_16_BIT(__half, "f16", 96, 48, "%48", "%49", "%50", "%51", "%52", "%53")
WGMMA_16_BIT(__half, "f16", 128, 64, "%64", "%65", "%66", "%67", "%68", "%69")
WGMMA_16_BIT(__half, "f16", 256, 128, "%128", "%129", "%130", "%131", "%132", "%133")
WGMMA_16_BIT(__nv_bfloat16, "bf16", 32, 16, "%16", "%17", "%18", "%19", "%20", "%21")
WGMMA_16_BIT(__nv_bfloat16, "bf16", 64, 32, "%32", "%33", "%34", "%35", "%36", "%37")
WGMMA_16_BIT(__nv_bfloat16, "bf16", 80, 40, "%40", "%41", "%42", "%43", "%44", "%45")
WGMMA_16_BIT(__nv_bfloat16, "bf16", 96, 48, "%48", "%49", "%50", "%51", "%52", "%53")
WGMMA_16_BIT(__nv_bfloat16, "bf16", 128, 64, "%64", "%65", "%66", "%67", "%68", "%69")
WGMMA_16_BIT(__nv_bfloat16, "bf16", 256, 128, "%128", "%129", "%130", "%131", "%132", "%133")
WGMMA_E4M3(64, 32, "%32", "%33", "%34", "%35", "%36", "%37")
WGMMA_E4M3(80, 40, "%40", "%41", "%42", "%43", "%44", "%45")
WGMMA_E4M3(96, 48, "%48", "%49", "%50", "%51", "%52", "%53")
WGMMA_E4M3(128, 64, "%64", "%65", "%66", "%67", "%68", "%69")
WGMMA_E4M3(256, 128, "%128", "%129", "%130", "%131", "%132", "%133")

#undef WGMMA_E4M3
#undef WGMMA_16_BIT
#undef WGMMA_PRODUCTS
#undef WGMMA_FROM_SHARED
#undef WGMMA_FROM_REGISTERS

}  // namespace wgmma
