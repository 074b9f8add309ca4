// The candidate as constants: element type, block sizes, threads, registers, ranges of the weights, and where a thread's
// own data is. `tiles.cuh` has the tiles in shared memory and their barriers.
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

using Element = axis::Element<e4m3::Code>;
using Output = OutputOf<Element, axis::fp8_output == axis::Fp8Output::bf16>::Type;

constexpr bool FP8 = axis::dtype == axis::Dtype::e4m3;
constexpr int HEAD_DIM = axis::head_dim;
constexpr int CONSUMERS = knob::WARPGROUPS;  // warpgroups that compute
constexpr bool SPLIT = knob::SPLIT_KV;       // the consumers have the same rows and split the keys
constexpr int BLOCK_M = SPLIT ? 64 : 64 * CONSUMERS;
constexpr int BLOCK_N = knob::BLOCK_N;
constexpr int STAGES = knob::STAGES;
constexpr int Q_STAGES = knob::Q_STAGES;
constexpr int BLOCKS = knob::PERSISTENT;  // 0: one per work tile
constexpr int THREADS = CONSUMERS * 128 + (SPLIT && !FP8 ? 32 : 128);
constexpr bool PING_PONG = knob::PING_PONG;
constexpr bool LAZY_MAX = knob::RUNNING_MAX == knob::RunningMax::lazy;
constexpr bool FORWARD = knob::KEY_ORDER == knob::KeyOrder::forward;
constexpr bool ROUND_LATE = knob::ROUND_LATE;
constexpr bool INTEGER_MAX = knob::RUNNING_MAX != knob::RunningMax::floats;

// Lengths, packed sequences, pages, windows, sinks, softcap: without a feature there is no code for any (`served.cuh`).
constexpr bool SERVING = axis::serving;
constexpr bool CAPPED = axis::softcap;
// Rows of a copy of keys or values, which never crosses the end of a page; without pages, tiles are copied whole.
constexpr bool PAGED = axis::page_rows > 0;
constexpr int PIECE_ROWS = !PAGED || axis::page_rows > BLOCK_N ? BLOCK_N : axis::page_rows;
constexpr int PIECES = BLOCK_N / PIECE_ROWS;

// FP8 products need V transposed: by warps of this kernel, or by a launch before it.
constexpr bool TRANSPOSED_BEFORE = FP8 && knob::TRANSPOSE == knob::Transpose::before;
constexpr bool TRANSPOSES = FP8 && !TRANSPOSED_BEFORE;
constexpr int V_ROW_STAGES = SPLIT ? STAGES : knob::V_ROW_STAGES;  // of tiles that wait to be transposed

// With QUERIES parts, each consumer's 64 rows of a tile of Q are a copy of their own.
constexpr int Q_COPIES = knob::QUERIES == knob::Queries::parts ? CONSUMERS : 1;

// Registers per thread: together at most the 65536 of a multiprocessor.
constexpr bool HAS_HELPERS = TRANSPOSES || SERVING;  // warps of the producer warpgroup that change tiles of V
constexpr int PRODUCER_REGISTERS = HAS_HELPERS && CONSUMERS == 2 ? 40 : CONSUMERS == 3 || HAS_HELPERS ? 32 : 24;
constexpr int CONSUMER_REGISTERS = CONSUMERS == 2 ? (HAS_HELPERS ? 232 : 240) : CONSUMERS == 3 ? 160 : 112;

// ---- the range of the weights ----
//
// A weight is 2^(exponent - running_max): exponent is the score times softmax_scale times log2 e. The subtracted number
// follows the row's maximum only when a new score exceeds it by more than RESCALE_THRESHOLD, so a weight can be 2 to that
// power. FP8 weights are also multiplied by 2^WEIGHT_SHIFT, see `rows_fp8.cuh`.

// The running maximum of a row before its first key. Finite, because -inf - -inf is NaN, and below every exponent.
constexpr float NOTHING_SEEN = -3.4e38f;

// RUNNING_MAX lazy, 16 bits: if a lane's sum of a row's weights in one step is at most LARGEST_SUM, each of these weights
// fits its type. Above SUM_WITHOUT_SCORES a weight may be infinite.
constexpr float LARGEST_SUM = 1024.0f;
constexpr float SUM_WITHOUT_SCORES = 1e30f;

// A lane adds up a row's weights in this many sums. Two have half the latency of one. Lazy steps have sums of their own,
// which are added to one.
constexpr int SUMS_OF_ROW = LAZY_MAX && !SPLIT ? 1 : 2;

// FP8: right after a row's running maximum was raised, the largest weight is 2^FULL_SHIFT if the row has the full range of
// the format, otherwise 2^WEIGHT_SHIFT. 2^SMALLEST_EXPONENT is the smallest number with three bits of mantissa.
constexpr float FULL_SHIFT = 8;
constexpr float WEIGHT_SHIFT = FP8 ? FULL_SHIFT - knob::RESCALE_THRESHOLD : 0;
constexpr float SMALLEST_EXPONENT = -6;
constexpr bool FINDS_LIGHT = FP8 && knob::RESCALE_THRESHOLD > 0;
// Above head_dim 128 there is no room in shared memory, up to it there are no registers.
constexpr bool RANGES_IN_SHARED = HEAD_DIM <= 128;
// The exponent of the largest weight that does not raise the running maximum. The largest number of E4M3 is 448, 2^8.8.
constexpr float LARGEST_EXPONENT = !FP8 ? knob::RESCALE_THRESHOLD : FINDS_LIGHT ? 8.8f : FULL_SHIFT;

// ---- FP8 ----

// Scales may be per block: of 64 queries, and of the keys and values of a step.
constexpr bool BLOCK_SCALES = FP8 && knob::BLOCK_SCALES;
// The producer loads the scales of a head, long before the consumers need them.
constexpr bool PRODUCER_LOADS_SCALES = FP8 && !BLOCK_SCALES && !SPLIT;

// Steps after which the output is promoted: added to sums in shared memory. 0: never. For many columns the sums are bf16,
// which has the range of fp32; each promotion then rounds by up to 2^-9.
constexpr int PROMOTION_INTERVAL = knob::PROMOTION_INTERVAL;
constexpr bool HALF_SUMS = HEAD_DIM > 64;

// ---- threads and their own data ----

__device__ inline int lane() { return threadIdx.x % 32; }
// The same, read again: the compiler does not keep it in a register.
__device__ inline int lane_again() {
    int lane;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}
__device__ inline int warp_of_group() { return threadIdx.x / 32 % 4; }
// A lane holds row own_row() of its warpgroup's 64, and the row 8 below it.
__device__ inline int own_row() { return warp_of_group() * 16 + lane() / 4; }

__device__ inline unsigned in_shared(unsigned offset) { return ptx::shared_address(shared_memory) + offset; }

// A warp's own 16 rows by 64 columns of 16-bit outputs, on their way to global memory.
__device__ inline unsigned store_tile() {
    return in_shared(smem::store_tile::offset) + threadIdx.x / 32 * 16 * tma::ROW_BYTES;
}

// FP8: four of a thread's promoted sums. Its next four are 128 threads further on.
__device__ inline unsigned promoted_sums(int index) {
    constexpr unsigned BYTES = HALF_SUMS ? 8 : 16;
    return in_shared(smem::promoted_sums::offset) +
           ((threadIdx.x / 128 * (HEAD_DIM / 8) + index) * 128 + threadIdx.x % 128) * BYTES;
}

// FP8: one of the warp's 16 rows of 64 columns of the output, on their way out. With promotion they take the place of the
// warp's sums.
__device__ inline unsigned stored_row(int row) {
    if constexpr (FP8 && PROMOTION_INTERVAL > 0) {
        constexpr unsigned BYTES = HALF_SUMS ? 8 : 16, ROWS = 32 * BYTES / tma::ROW_BYTES;  // of a warp for each index
        const unsigned index = threadIdx.x / 128 * (HEAD_DIM / 8) + row / ROWS;
        return in_shared(smem::promoted_sums::offset) + (index * 128 + threadIdx.x % 128 / 32 * 32) * BYTES +
               row % ROWS * tma::ROW_BYTES;
    } else {
        return store_tile() + row * tma::ROW_BYTES;
    }
}

// FP8: the running maxima that a thread's promoted sums of two rows belong to.
__device__ inline unsigned promoted_max() { return in_shared(smem::promoted_max::offset) + threadIdx.x * 8; }

// FP8: the ranges of a thread's two rows, see `ScoreRows::Ranges`.
__device__ inline unsigned light_offsets() { return in_shared(smem::light_offsets::offset) + threadIdx.x * 8; }

// With JITTER the warp sleeps for a time that depends on block, warp and step. This must not change the result.
__device__ inline void jitter(int what) {
    if constexpr (knob::JITTER) {
        unsigned hash = (blockIdx.x * 64 + threadIdx.x / 32) * 2654435761u + what * 2246822519u;
        hash ^= hash >> 15;
        hash *= 3266489917u;
        __nanosleep(hash >> 16 & 4095);
    }
}

}  // namespace hopper
