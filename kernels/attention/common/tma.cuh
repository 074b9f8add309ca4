// Tensor copies (TMA) and the barriers that count their bytes. From sm_90 on; one instruction each.
//
// A tensor has the dimensions (head_dim, sequence, head, batch), innermost first. A box has rows of 128 bytes, or of 64.
// The copy engine permutes the 16-byte chunks of a row: chunk c of row r lies at c XOR r % 8; with rows of 64 bytes, at
// c XOR r / 2 % 4. Elements outside the tensor are loaded as zeros, and the barrier counts their bytes, too.
#pragma once

#include "common/ptx.cuh"

namespace tma {

// What the host has encoded about a tensor and its box. A kernel parameter marked __grid_constant__.
struct alignas(64) TensorMap {
    unsigned long long words[16];
};

// Rows of a box of the 128-byte swizzle.
constexpr int ROW_BYTES = 128;
// The pattern repeats after this many bytes; every box begins on a multiple of it.
constexpr int SWIZZLE_BYTES = 1024;

// Where chunk `chunk` (0-7) of row `row` of a box lies, from the start of the box.
__device__ inline unsigned chunk_offset(int row, int chunk) { return row * ROW_BYTES + ((chunk ^ (row % 8)) * 16); }

// The same for rows of 128, 64 or 32 bytes. Eight rows of the same chunk lie in different banks.
template <int BYTES>
__device__ unsigned chunk_offset(int row, int chunk) {
    static_assert(BYTES == 128 || BYTES == 64 || BYTES == 32, "the widths of the swizzle");
    return row * BYTES + ((chunk ^ (row / (128 / BYTES) % (BYTES / 16))) * 16);
}

__device__ inline void prefetch(const TensorMap& map) {
    asm volatile("prefetch.tensormap [%0];" :: "l"(&map) : "memory");
}

// Loads the box that begins at these coordinates. Its bytes count on the barrier. One thread calls.
__device__ inline void load(unsigned shared, const TensorMap& map, int column, int row, int head, int batch,
                            unsigned barrier) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4, %5}], [%6];"
                 :: "r"(shared), "l"(&map), "r"(column), "r"(row), "r"(head), "r"(batch), "r"(barrier) : "memory");
}

// Loads neighbouring bytes, a multiple of 16. They count on the barrier. One thread calls.
__device__ inline void load_bytes(unsigned shared, const void* global, unsigned bytes, unsigned barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :: "r"(shared), "l"(global), "r"(bytes), "r"(barrier) : "memory");
}

// Stores neighbouring bytes, a multiple of 16. One thread calls, and then `stores_read`.
__device__ inline void store_bytes(void* global, unsigned shared, unsigned bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 :: "l"(global), "r"(shared), "r"(bytes) : "memory");
}
// Adds neighbouring floats to those in memory, a multiple of 16 bytes. Each addition is atomic. One thread calls, and then
// `stores_read`.
__device__ inline void add_floats(void* global, unsigned shared, unsigned bytes) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;"
                 :: "l"(global), "r"(shared), "r"(bytes) : "memory");
}
// Waits until all stores of this thread have read the shared memory.
__device__ inline void stores_read() {
    asm volatile("cp.async.bulk.commit_group;\n\tcp.async.bulk.wait_group.read 0;" ::: "memory");
}

// Waits until all stores of this thread are in memory.
__device__ inline void stores_done() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

// Makes earlier writes of this thread to shared memory visible to tensor cores and copies. A barrier must follow.
__device__ inline void fence_shared_writes() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Makes fresh barriers visible to the copy engine.
__device__ inline void fence_barrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// The phase also waits for this many bytes of copies.
__device__ inline void expect(unsigned barrier, unsigned bytes) {
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" :: "r"(barrier), "r"(bytes) : "memory");
}
// The same and one arrival.
__device__ inline void arrive_and_expect(unsigned barrier, unsigned bytes) {
    asm volatile("{ .reg .b64 state; mbarrier.arrive.expect_tx.shared.b64 state, [%0], %1; }"
                 :: "r"(barrier), "r"(bytes) : "memory");
}

}  // namespace tma
