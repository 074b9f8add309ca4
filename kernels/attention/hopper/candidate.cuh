// The candidate as constants and types: element type, tiles, threads, and where things are in shared memory.
#pragma once

#include "generated.cuh"

#include "common/arguments.cuh"
#include "common/elements.cuh"
#include "common/ptx.cuh"
#include "common/softmax.cuh"
#include "common/tma.cuh"
#include "common/wgmma.cuh"

extern __shared__ __align__(1024) unsigned char shared_memory[];

namespace hopper {

using attention::Arguments;
using tma::TensorMap;

template <axis::Dtype>
struct ElementOf;
template <>
struct ElementOf<axis::Dtype::fp16> {
    using Type = __half;
};
template <>
struct ElementOf<axis::Dtype::bf16> {
    using Type = __nv_bfloat16;
};
template <>
struct ElementOf<axis::Dtype::e4m3> {
    using Type = e4m3::Code;
};
using Element = ElementOf<axis::dtype>::Type;
using Output = OutputOf<Element, axis::fp8_output == axis::Fp8Output::bf16>::Type;

constexpr bool FP8 = axis::dtype == axis::Dtype::e4m3;
constexpr int HEAD_DIM = axis::head_dim;
constexpr int CONSUMERS = knob::WARPGROUPS;
constexpr bool SPLIT = knob::SPLIT_KV;  // the warpgroups have the same rows and split the keys
constexpr int BLOCK_M = SPLIT ? 64 : 64 * CONSUMERS;
constexpr int BLOCK_N = knob::BLOCK_N;
constexpr int STAGES = knob::STAGES;
constexpr int Q_STAGES = knob::Q_STAGES;
constexpr int BLOCKS = knob::PERSISTENT;  // 0: one per work tile
constexpr int THREADS = CONSUMERS * 128 + (SPLIT && !FP8 ? 32 : 128);
constexpr bool TURNS = knob::TURNS;
constexpr bool LATE_MAXIMUM = knob::MAXIMUM == knob::Maximum::late;
constexpr bool INTEGER_MAXIMUM = knob::MAXIMUM != knob::Maximum::floats;

// A tile is a row of boxes. A row of a box has 128 bytes, or the 64 of a whole head.
constexpr int ROW_BYTES = FP8 && HEAD_DIM == 64 ? 64 : tma::ROW_BYTES;
constexpr int BOX_COLUMNS = ROW_BYTES / sizeof(Element);
constexpr int BOXES = (HEAD_DIM + BOX_COLUMNS - 1) / BOX_COLUMNS;
constexpr unsigned Q_BOX_BYTES = BLOCK_M * ROW_BYTES;
constexpr unsigned KV_BOX_BYTES = BLOCK_N * ROW_BYTES;
constexpr unsigned Q_BYTES = BOXES * Q_BOX_BYTES;
constexpr unsigned KV_BYTES = BOXES * KV_BOX_BYTES;
constexpr unsigned WARPGROUP_ROW_BYTES = 64 * ROW_BYTES;  // a warpgroup's rows of a box of Q
static_assert(HEAD_DIM % 16 == 0 && KV_BOX_BYTES % tma::SWIZZLE_BYTES == 0, "boxes begin where the swizzle does");

// FP8 products read V by columns: `transpose.cuh` makes such tiles from the copied ones, in this kernel or before it.
constexpr bool TRANSPOSED_BEFORE = FP8 && knob::TRANSPOSE == knob::Transpose::before;
constexpr bool TRANSPOSES = FP8 && !TRANSPOSED_BEFORE;
constexpr unsigned V_BYTES = FP8 ? HEAD_DIM * BLOCK_N : KV_BYTES;
constexpr int V_ROW_STAGES = SPLIT ? STAGES : knob::V_ROW_STAGES;  // of copied tiles

constexpr int RINGS = SPLIT ? CONSUMERS : 1;  // of K, and of V
static_assert(smem::q_tile::bytes == Q_STAGES * Q_BYTES && smem::k_tile::bytes == RINGS * STAGES * KV_BYTES &&
                  smem::v_tile::bytes == RINGS * STAGES * V_BYTES &&
                  smem::v_rows::bytes == (TRANSPOSES ? RINGS * V_ROW_STAGES * KV_BYTES : 0),
              "as the manifest lays it out");

// Registers per thread: together at most the 65536 of a multiprocessor.
constexpr int PRODUCER_REGISTERS = TRANSPOSES && CONSUMERS == 2 ? 40 : CONSUMERS == 3 || TRANSPOSES ? 32 : 24;
constexpr int CONSUMER_REGISTERS = CONSUMERS == 2 ? (TRANSPOSES ? 232 : 240) : CONSUMERS == 3 ? 160 : 112;

// The origin of a row before its first key. Finite, because -inf - -inf is NaN, and below every exponent that counts.
constexpr float NOTHING_SEEN = -3.4e38f;

// MAXIMUM late: if a lane's sum of the weights of a row in one step is at most LARGEST_SUM, no weight is too large for
// its type. Above SUM_WITHOUT_SCORES a weight may be infinite.
constexpr float LARGEST_SUM = FP8 ? 448.0f : 1024.0f;
constexpr float SUM_WITHOUT_SCORES = 1e30f;

// A lane adds up the weights of a row in so many sums. Two have half the latency; the sums of a step are added to one.
constexpr int SUMS_OF_ROW = LATE_MAXIMUM && !SPLIT ? 1 : 2;

// FP8 weights use the range of the format, of which the largest number is 448: they are multiplied by 2^WEIGHT_SHIFT.
// With MAXIMUM late, the sum of a lane's BLOCK_N / 4 weights must be at most LARGEST_SUM after an origin has moved.
constexpr float LARGEST_SHIFT = !LATE_MAXIMUM ? 8 : BLOCK_N > 112 ? 3 : 4;
constexpr float WEIGHT_SHIFT = !FP8 ? 0 : 8 - knob::SLACK < LARGEST_SHIFT ? 8 - knob::SLACK : LARGEST_SHIFT;
// FP8: a weight may be as large as 2^LARGEST_EXPONENT; with MAXIMUM late, a lane's sum of them, below LARGEST_SUM.
constexpr float LARGEST_EXPONENT = LATE_MAXIMUM ? 8.6f : 8;
static_assert(!LATE_MAXIMUM || BLOCK_N / 4 * (1 << int(WEIGHT_SHIFT)) <= LARGEST_SUM, "see above");

// FP8: scales may be per block: of 64 queries, and of the keys and values of a step.
constexpr bool BLOCK_SCALES = FP8 && knob::BLOCK_SCALES;
// FP8: the producer reads the scales of a head, long before the consumers need them.
constexpr bool HANDS_SCALES = FP8 && !BLOCK_SCALES && !SPLIT;

// FP8: of so many steps, one has no refined keys; or 0.
constexpr int UNREFINED_STEP = FP8 ? knob::UNREFINED_STEP : 0;

// FP8: steps after which the output is added to sums, or 0. For many columns these are fp16.
constexpr int SUM_STEPS = knob::SUM_STEPS;
constexpr bool HALF_SUMS = HEAD_DIM > 64;

// ---- where things are ----

__device__ inline int lane() { return threadIdx.x % 32; }
// The same, read again: the compiler does not keep it in a register.
__device__ inline int lane_again() {
    int lane;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}
__device__ inline int warp_of_group() { return threadIdx.x / 32 % 4; }
// A lane holds row own_row() of its warpgroup's 64, and the one 8 below it.
__device__ inline int own_row() { return warp_of_group() * 16 + lane() / 4; }

__device__ inline unsigned in_shared(unsigned offset) { return ptx::shared_address(shared_memory) + offset; }
__device__ inline unsigned q_tile(int stage) { return in_shared(smem::q_tile::offset) + stage * Q_BYTES; }
__device__ inline unsigned k_tile(int stage) { return in_shared(smem::k_tile::offset) + stage * KV_BYTES; }
__device__ inline unsigned v_tile(int stage) { return in_shared(smem::v_tile::offset) + stage * V_BYTES; }
__device__ inline unsigned v_rows(int stage) { return in_shared(smem::v_rows::offset) + stage * KV_BYTES; }

// The warp's own part of the tile.
__device__ inline unsigned store_tile() {
    return in_shared(smem::store_tile::offset) + threadIdx.x / 32 * 16 * tma::ROW_BYTES;
}

// A thread's own part of the sums: 4 elements at a time, and then those of the other threads.
__device__ inline unsigned output_sums(int index) {
    constexpr unsigned BYTES = HALF_SUMS ? 8 : 16;
    return in_shared(smem::output_sums::offset) +
           ((threadIdx.x / 128 * (HEAD_DIM / 8) + index) * 128 + threadIdx.x % 128) * BYTES;
}

// A thread's own origins of its two rows: those of the sums.
__device__ inline unsigned sum_origins() { return in_shared(smem::sum_origins::offset) + threadIdx.x * 8; }

__device__ inline unsigned barrier(int index) { return in_shared(smem::barriers::offset) + index * 8; }
__device__ inline unsigned k_full(int stage) { return barrier(stage); }
__device__ inline unsigned v_full(int stage) { return barrier(STAGES + stage); }
__device__ inline unsigned k_free(int stage) { return barrier(2 * STAGES + stage); }
__device__ inline unsigned v_free(int stage) { return barrier(3 * STAGES + stage); }
// "Full" of a tile of queries, or of each warpgroup's part of it.
constexpr bool Q_PARTS = knob::QUERIES == knob::Queries::parts;
constexpr int Q_COPIES = Q_PARTS ? CONSUMERS : 1;  // of a tile of queries
constexpr int Q_BARRIERS = Q_STAGES * (Q_PARTS ? 1 + CONSUMERS : 2);
__device__ inline unsigned q_full(int stage, int group) {
    return barrier(4 * STAGES + Q_STAGES + (Q_PARTS ? stage * CONSUMERS + group : stage));
}
__device__ inline unsigned q_free(int stage) { return barrier(4 * STAGES + stage); }
__device__ inline unsigned v_rows_full(int stage) { return barrier(4 * STAGES + Q_BARRIERS + stage); }
__device__ inline unsigned v_rows_free(int stage) {
    return barrier(4 * STAGES + Q_BARRIERS + V_ROW_STAGES + stage);
}

// With JITTER the warp sleeps for a time that depends on block, warp and step. This must not change the result.
__device__ inline void jitter(int what) {
    if constexpr (knob::JITTER) {
        unsigned hash = (blockIdx.x * 64 + threadIdx.x / 32) * 2654435761u + what * 2246822519u;
        hash ^= hash >> 15;
        hash *= 3266489917u;
        __nanosleep(hash >> 16 & 4095);
    }
}

// A place in a ring of tiles: its stage, and the parity of the phase in which it is filled.
struct Place {
    int stage = 0;
    unsigned parity = 0;

    template <int COUNT>
    __device__ __forceinline__ void advance() {
        if constexpr (COUNT == 1) {
            parity ^= 1;
        } else if (++stage == COUNT) {
            stage = 0;
            parity ^= 1;
        }
    }
};

}  // namespace hopper
