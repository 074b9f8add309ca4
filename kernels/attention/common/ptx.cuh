// The PTX instructions the kernels use and CUDA C++ has no name for: one short function each, nothing else.
// Shared-memory operands are 32-bit addresses in the shared window.
#pragma once

namespace ptx {

__device__ inline unsigned shared_address(const void* pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// 2^x with about 2 ulp; 2^-inf is +0.
__device__ inline float exp2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// ---- copies from global to shared memory that run beside the thread ----

// 16 bytes, or 16 zero bytes (and no read) where `valid` is false. Both addresses on 16-byte boundaries.
__device__ inline void copy16_async(void* shared, const void* global, bool valid) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(shared_address(shared)), "l"(global), "r"(valid ? 16 : 0) : "memory");
}

// Closes the group of copies this thread has started since the last call.
__device__ inline void copy_group_end() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most PENDING of this thread's newest groups are still under way.
template <int PENDING>
__device__ void copy_groups_wait() {
    static_assert(PENDING >= 0, "a number of groups");
    asm volatile("cp.async.wait_group %0;" :: "n"(PENDING) : "memory");
}

// Waits for all of this thread's copies, in groups or not.
__device__ inline void copies_wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// ---- barriers ----

// Barrier ID among THREADS threads of the block (0 is __syncthreads).
template <int ID, int THREADS>
__device__ void named_barrier_sync() {
    asm volatile("bar.sync %0, %1;" :: "n"(ID), "n"(THREADS) : "memory");
}

// An mbarrier completes a phase when `arrivals` threads have arrived; phases count 0, 1, 0, 1, ...
__device__ inline void mbarrier_init(unsigned long long* barrier, unsigned arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

// Everything this thread did before is visible to who sees the phase complete.
__device__ inline void mbarrier_arrive(unsigned long long* barrier) {
    asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }"
                 :: "r"(shared_address(barrier)) : "memory");
}

// Arrives on this thread's behalf once all its copies so far have landed. One of the `arrivals` the barrier
// was made for.
__device__ inline void mbarrier_arrive_after_copies(unsigned long long* barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" :: "r"(shared_address(barrier)) : "memory");
}

// Has the phase of this parity completed? A fresh barrier counts the phase before its first (parity 1) as
// completed. From sm_90 on the hardware suspends the thread for a while before it says no.
__device__ inline bool mbarrier_phase_done(unsigned long long* barrier, unsigned parity) {
    unsigned done;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(shared_address(barrier)), "r"(parity) : "memory");
#else
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(shared_address(barrier)), "r"(parity) : "memory");
#endif
    return done != 0;
}

__device__ inline void mbarrier_wait(unsigned long long* barrier, unsigned parity) {
    while (!mbarrier_phase_done(barrier, parity)) {}
}

// ---- tensor cores by their documented register layout ----

// Four 8x8 matrices of halves. Lane l names a row (16 bytes): lanes 0-7 the first matrix, 8-15 the second,
// ... Register i of lane l holds elements (l / 4, 2 * (l % 4)) and the one right of it, of matrix i.
__device__ inline void load_matrix_x4(unsigned (&r)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(row)) : "memory");
}

// The same, each 8x8 matrix transposed on the way.
__device__ inline void load_matrix_x4_transposed(unsigned (&r)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(row)) : "memory");
}

// d[16x8] += a[16x16] b[16x8]. d: rows l / 4 and l / 4 + 8, columns 2 * (l % 4) and the next.
__device__ inline void mma_16x8x16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace ptx
