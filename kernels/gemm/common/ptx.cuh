// PTX instructions that CUDA C++ does not provide: one short function for each. Shared-memory operands are 32-bit
// addresses in the shared window.
#pragma once

#include "common/elements.cuh"

namespace ptx {

__device__ inline unsigned shared_address(const void* pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// Copies 16 bytes in the background, or 16 zero bytes (and reads nothing) if `valid` is false. Both addresses are
// multiples of 16.
__device__ inline void copy16_async(unsigned shared, const void* global, bool valid) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(shared), "l"(global), "r"(valid ? 16 : 0) : "memory");
}

// Closes the group of copies that this thread has started since the last call.
__device__ inline void copy_group_end() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most PENDING of this thread's newest groups are incomplete.
template <int PENDING>
__device__ void copy_groups_wait() {
    asm volatile("cp.async.wait_group %0;" :: "n"(PENDING) : "memory");
}

// Four 8x8 matrices of 2-byte elements (8 rows of 16 bytes). Lane l names a row: lanes 0-7 the first matrix, 8-15 the
// second, ... Register i of lane l holds bytes 4 * (l % 4) to 4 * (l % 4) + 3 of row l / 4 of matrix i.
__device__ inline void load_matrix_x4(unsigned (&r)[4], unsigned row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(row) : "memory");
}

// d[16x8] += a[16 x 32 bytes] b[32 bytes x 8]. d: rows l / 4 and l / 4 + 8, columns 2 * (l % 4) and the next. The bytes of
// a and b lie in the same registers for all types; FP8 needs sm_89.
__device__ inline void mma(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, __half) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ inline void mma(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, __nv_bfloat16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ inline void mma(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, e4m3::Code) {
    asm("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace ptx
