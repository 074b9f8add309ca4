// PTX instructions that the kernels use and that CUDA C++ does not provide: one short function for each.
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

// 1 / x with about 1 ulp, for x that is neither tiny nor huge: no slow path.
__device__ inline float reciprocal_approx(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Reads blockIdx again at this place. The compiler may keep the built-in variable, and everything computed from it, in
// registers from its first use to its last, which can be the whole kernel.
__device__ inline int3 block_index_again() {
    int3 index;
    asm volatile("mov.u32 %0, %%ctaid.x;\n\tmov.u32 %1, %%ctaid.y;\n\tmov.u32 %2, %%ctaid.z;"
                 : "=r"(index.x), "=r"(index.y), "=r"(index.z));
    return index;
}

// Stores 16 bytes at a 16-byte boundary by one instruction; the compiler may split a plain store.
__device__ inline void store16(void* global, const unsigned (&w)[4]) {
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};"
                 :: "l"(global), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]) : "memory");
}

// Stores 8 bytes at an 8-byte boundary by one instruction.
__device__ inline void store8(void* global, const unsigned (&w)[2]) {
    asm volatile("st.global.v2.b32 [%0], {%1, %2};" :: "l"(global), "r"(w[0]), "r"(w[1]) : "memory");
}

// The same, if `when` is true, without a branch.
__device__ inline void store8(void* global, const unsigned (&w)[2], bool when) {
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %3, 0;\n\t@p st.global.v2.b32 [%0], {%1, %2}; }"
                 :: "l"(global), "r"(w[0]), "r"(w[1]), "r"(static_cast<unsigned>(when)) : "memory");
}

// 16 bytes from an address on a 16-byte boundary in the shared window.
__device__ inline void load16_shared(unsigned (&w)[4], unsigned shared) {
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]) : "r"(shared) : "memory");
}

// The same with 4 floats.
__device__ inline void load16_shared(float (&x)[4], unsigned shared) {
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3]) : "r"(shared) : "memory");
}
__device__ inline void store16_shared(unsigned shared, float a, float b, float c, float d) {
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" :: "r"(shared), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
}
// 8 bytes at an 8-byte boundary in the shared window.
__device__ inline void load8_shared(unsigned (&w)[2], unsigned shared) {
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(w[0]), "=r"(w[1]) : "r"(shared) : "memory");
}
__device__ inline void store8_shared(unsigned shared, const unsigned (&w)[2]) {
    asm volatile("st.shared.v2.b32 [%0], {%1, %2};" :: "r"(shared), "r"(w[0]), "r"(w[1]) : "memory");
}
__device__ inline void load8_shared(float (&x)[2], unsigned shared) {
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(x[0]), "=f"(x[1]) : "r"(shared) : "memory");
}
__device__ inline void store8_shared(unsigned shared, const float (&x)[2]) {
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" :: "r"(shared), "f"(x[0]), "f"(x[1]) : "memory");
}

// A number that blocks exchange. What the writer has done before its store is visible to a reader of the number.
__device__ inline int load_acquire(const int* number) {
    int value;
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(number) : "memory");
    return value;
}
__device__ inline void store_release(int* number, int value) {
    asm volatile("st.release.gpu.global.s32 [%0], %1;" :: "l"(number), "r"(value) : "memory");
}

// Tells the compiler that all lanes of the warp have the same value. Uniform values have their own registers, and an
// instruction that requires a uniform operand then needs no loop over the lanes.
__device__ inline unsigned same_in_warp(unsigned value) { return __shfl_sync(0xffffffffu, value, 0); }

// Adds four floats to those at a 16-byte boundary in global memory, each atomically. From sm_90 on.
__device__ inline void add4_floats(float* global, float a, float b, float c, float d) {
    asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" :: "l"(global), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
}

// ---- launches that overlap ----

// Lets the next launch on the stream start, if it asked for that: its blocks take free room on the multiprocessors. And waits
// until the launches before are complete, if this one has started before. Both do nothing in ordinary launches.
__device__ inline void start_next_launch() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
__device__ inline void await_launch_before() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// ---- asynchronous copies from global to shared memory ----

// 16 bytes, or 16 zero bytes (and no read) if `valid` is false. Both addresses on 16-byte boundaries.
__device__ inline void copy16_async(unsigned shared, const void* global, bool valid) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(shared), "l"(global), "r"(valid ? 16 : 0) : "memory");
}
__device__ inline void copy16_async(void* shared, const void* global, bool valid) {
    copy16_async(shared_address(shared), global, valid);
}

// 16 bytes that exist, to an address in the shared window.
__device__ inline void copy16_async(unsigned shared, const void* global) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(shared), "l"(global) : "memory");
}

// Closes the group of copies this thread has started since the last call.
__device__ inline void copy_group_end() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most PENDING of this thread's newest groups are still in flight.
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

// The same, with the barrier known only at run time.
template <int THREADS>
__device__ void named_barrier_sync(int id) {
    asm volatile("bar.sync %0, %1;" :: "r"(id), "n"(THREADS) : "memory");
}

// Arrives at barrier `id` of THREADS threads without waiting for the others. Earlier writes of this thread are visible
// to the threads that wait there.
template <int THREADS>
__device__ void named_barrier_arrive(int id) {
    asm volatile("bar.arrive %0, %1;" :: "r"(id), "n"(THREADS) : "memory");
}

// Barrier `id` of THREADS threads, for the question whether `own` is true in any of them.
template <int THREADS>
__device__ bool named_barrier_any(int id, bool own) {
    unsigned any;
    asm volatile("{ .reg .pred p, q; setp.ne.u32 p, %1, 0;\n\tbar.red.or.pred q, %2, %3, p;\n\tselp.u32 %0, 1, 0, q; }"
                 : "=r"(any) : "r"(static_cast<unsigned>(own)), "r"(id), "n"(THREADS) : "memory");
    return any != 0;
}

// An mbarrier completes a phase when `arrivals` threads have arrived; phases count 0, 1, 0, 1, ...
__device__ inline void mbarrier_init(unsigned barrier, unsigned arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(barrier), "r"(arrivals) : "memory");
}

// Earlier writes of this thread are visible to the threads that see the phase complete.
__device__ inline void mbarrier_arrive(unsigned barrier) {
    asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" :: "r"(barrier) : "memory");
}

// Arrives for this thread when all its copies so far are complete. This is one of the `arrivals` of the
// barrier.
__device__ inline void mbarrier_arrive_after_copies(unsigned barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" :: "r"(barrier) : "memory");
}

// Has the phase of this parity completed? A fresh barrier counts the phase before its first (parity 1) as
// completed. From sm_90 on the hardware suspends the thread for a while before it returns false.
__device__ inline bool mbarrier_phase_done(unsigned barrier, unsigned parity) {
    unsigned done;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
#else
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
#endif
    return done != 0;
}

__device__ inline void mbarrier_wait(unsigned barrier, unsigned parity) {
    while (!mbarrier_phase_done(barrier, parity)) {}
}

// ---- tensor cores by their documented register layout ----

// Four 8x8 matrices of halves. Lane l names a row (16 bytes): lanes 0-7 the first matrix, 8-15 the second,
// ... Register i of lane l holds elements (l / 4, 2 * (l % 4)) and the one right of it, of matrix i.
__device__ inline void load_matrix_x4(unsigned (&r)[4], unsigned row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(row) : "memory");
}
__device__ inline void load_matrix_x4(unsigned (&r)[4], const void* row) { load_matrix_x4(r, shared_address(row)); }

// The same, each 8x8 matrix transposed on the way.
__device__ inline void load_matrix_x4_transposed(unsigned (&r)[4], unsigned row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(row) : "memory");
}
__device__ inline void load_matrix_x4_transposed(unsigned (&r)[4], const void* row) {
    load_matrix_x4_transposed(r, shared_address(row));
}

// An 8x8 matrix of 16-bit elements, transposed: lane l gives and gets elements (l / 4, 2 * (l % 4)) and the one right of it.
__device__ inline unsigned transpose_matrix(unsigned word) {
    unsigned transposed;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(transposed) : "r"(word));
    return transposed;
}

// d[16x8] += a[16x16] b[16x8]. d: rows l / 4 and l / 4 + 8, columns 2 * (l % 4) and the next.
__device__ inline void mma_16x8x16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The same for bf16.
__device__ inline void mma_16x8x16_bf16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// d[16x8] += a[16x32] b[32x8] in E4M3, from sm_89 on. Four codes to a register where fp16 has two halves, so the
// bytes of a and b lie as above.
__device__ inline void mma_16x8x32_e4m3(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The first half of that depth: d[16x8] += a[16x16] b[16x8], with a0, a1 and b0 as above.
__device__ inline void mma_16x8x16_e4m3(float (&d)[4], unsigned a0, unsigned a1, unsigned b0) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a0), "r"(a1), "r"(b0));
}

}  // namespace ptx
