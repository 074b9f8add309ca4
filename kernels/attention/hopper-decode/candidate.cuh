// The candidate as constants, and where a thread's own data is.
#pragma once

#include "generated.cuh"

#include "common/arguments.cuh"
#include "common/copied_tile.cuh"
#include "common/elements.cuh"
#include "common/ptx.cuh"
#include "common/softmax.cuh"

extern __shared__ __align__(1024) unsigned char shared_memory[];

namespace decode {

using attention::Arguments;
using tma::RingPosition;
using tma::TensorMap;

using Element = axis::Element<>;

constexpr int HEAD_DIM = axis::head_dim;
constexpr int ROWS = knob::ROWS;            // of a block; ROWS_OF_LANE of each lane
constexpr bool KEYS_BY_WARP = ROWS == 8;    // see `warps.cuh`
constexpr int BLOCK_N = knob::BLOCK_N;
constexpr int STAGES = knob::STAGES;
constexpr int CLUSTER = knob::CLUSTER;      // 0: equal shares for all blocks
constexpr int BLOCKS = knob::BLOCKS;
constexpr bool EQUAL_SHARES = CLUSTER == 0;
constexpr int BLOCKS_OF_UNIT = EQUAL_SHARES ? 1 : CLUSTER;
constexpr bool SERVING = axis::serving;     // lengths, pages, windows, sinks, softcap; without it there is no code for them
// Rows of a copy, which never crosses the end of a page; a contiguous cache is copied in whole tiles.
constexpr bool PAGED = axis::page_rows > 0;
constexpr int PIECE_ROWS = !PAGED || axis::page_rows > BLOCK_N ? BLOCK_N : axis::page_rows;
constexpr int PIECES = BLOCK_N / PIECE_ROWS;

constexpr int CONSUMERS = 128;              // threads that compute: one warpgroup
// Warps that copy. A lane needs a while for each copy of a small piece, so four share those of a tile.
constexpr int PRODUCER_WARPS = KEYS_BY_WARP && PAGED && PIECES >= 4 ? 4 : 1;
constexpr int THREADS = CONSUMERS + 32 * PRODUCER_WARPS;
constexpr int ROWS_OF_LANE = KEYS_BY_WARP ? 1 : ROWS / 32;

using QueryTile = tma::CopiedTile<Element, HEAD_DIM, 64>;
using KeyTile = tma::CopiedTile<Element, HEAD_DIM, BLOCK_N>;
static_assert((KEYS_BY_WARP || smem::q_tile::bytes == QueryTile::BYTES) && smem::k_tile::bytes == STAGES * KeyTile::BYTES &&
                  smem::v_tile::bytes == STAGES * KeyTile::BYTES,
              "as the manifest lays it out");

// The running maximum of a row before its first key. Finite, because -inf - -inf is NaN, and below every exponent.
constexpr float NOTHING_SEEN = -3.4e38f;

__device__ inline int lane() { return threadIdx.x % 32; }
__device__ inline int warp() { return threadIdx.x / 32; }

// The products have 64 rows, of which a lane has row `16 * warp() + lane() / 4` and the row 8 below. With ROWS 32 the
// lower row of every lane is empty, which saves half of the exponentials.
//
// The place of a row of the block among the 64.
__device__ inline int place_of_row(int row) { return ROWS == 64 ? row : row / 8 * 16 + row % 8; }
// The rows of the block that a lane has, `of_lane` < ROWS_OF_LANE.
__device__ inline int own_row(int of_lane) { return warp() * (ROWS / 4) + 8 * of_lane + lane() / 4; }

__device__ inline unsigned in_shared(unsigned offset) { return ptx::shared_address(shared_memory) + offset; }
__device__ inline unsigned key_tile(int stage) { return in_shared(smem::k_tile::offset) + stage * KeyTile::BYTES; }
__device__ inline unsigned value_tile(int stage) { return in_shared(smem::v_tile::offset) + stage * KeyTile::BYTES; }
__device__ inline unsigned keys_full(int stage) { return in_shared(smem::k_full::offset) + 8 * stage; }
__device__ inline unsigned keys_free(int stage) { return in_shared(smem::k_free::offset) + 8 * stage; }
__device__ inline unsigned values_full(int stage) { return in_shared(smem::v_full::offset) + 8 * stage; }
__device__ inline unsigned values_free(int stage) { return in_shared(smem::v_free::offset) + 8 * stage; }

// All threads that compute.
__device__ inline void consumers_sync() { ptx::named_barrier_sync<1, CONSUMERS>(); }

// With JITTER the warp sleeps for a time that depends on block, warp and step. This must not change the result.
__device__ inline void jitter(int what) {
    if constexpr (knob::JITTER) {
        unsigned hash = (blockIdx.x * 64 + warp()) * 2654435761u + what * 2246822519u;
        hash ^= hash >> 15;
        hash *= 3266489917u;
        __nanosleep(hash >> 16 & 4095);
    }
}

}  // namespace decode
