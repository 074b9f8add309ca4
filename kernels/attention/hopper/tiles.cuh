// Tiles of Q, K and V in shared memory, the rings that hold them, and their barriers.
//
// A ring has STAGES tiles. A tile is "full" when all its bytes have arrived, and "free" again when every reader has
// released it. Both are mbarriers: the phases of a tile have the parities 0, 1, 0, 1, ...
//
//   ring         filled by                       read by                    tile
//   queries      producer                        every consumer             CopiedTile<BLOCK_M>
//   keys         producer                        every consumer             CopiedTile<BLOCK_N>
//   values       producer; FP8: transposers      every consumer             CopiedTile<BLOCK_N>; FP8: TransposedTile
//   value_rows   producer (FP8 only)             transposers                CopiedTile<BLOCK_N>
//
// With SPLIT_KV every consumer has its own rings of keys, values and value rows.
#pragma once

#include "common/copied_tile.cuh"
#include "hopper/candidate.cuh"

namespace hopper {

// A row of a box has 128 bytes, or the 64 bytes of a whole FP8 head.
constexpr int ROW_BYTES = FP8 && HEAD_DIM == 64 ? 64 : tma::ROW_BYTES;
template <int ROWS>
using CopiedTile = tma::CopiedTile<Element, HEAD_DIM, ROWS, ROW_BYTES>;

// FP8: BLOCK_N values with the keys of a column side by side, as the right factor of P V (`transpose.cuh`). A tile has
// BLOCK_N / ROW matrices; a matrix has HEAD_DIM rows of ROW keys, one byte each, swizzled like the rows of a box.
struct TransposedTile {
    static constexpr int ROW = BLOCK_N % 128 == 0 ? 128 : BLOCK_N % 64 == 0 ? 64 : 32;
    static constexpr unsigned MATRIX_BYTES = HEAD_DIM * ROW;
    static constexpr unsigned BYTES = HEAD_DIM * BLOCK_N;

    // The keys 32 `step` to 32 `step` + 31.
    __device__ __forceinline__ static unsigned long long rows_step(unsigned tile, int step) {
        return wgmma::advance(wgmma::rows_along_depth<ROW>(tile), step * 32 / ROW * MATRIX_BYTES + step * 32 % ROW);
    }
};

template <bool>
struct ValueTileOf {
    using Type = CopiedTile<BLOCK_N>;
};
template <>
struct ValueTileOf<true> {
    using Type = TransposedTile;
};

using QueryTile = CopiedTile<BLOCK_M>;
using KeyTile = CopiedTile<BLOCK_N>;
using ValueTile = ValueTileOf<FP8>::Type;
constexpr unsigned CONSUMER_ROWS_BYTES = 64 * ROW_BYTES;  // a consumer's rows of a box of Q

using tma::RingPosition;

// The manifest names the barriers of each ring. Their addresses are computed from that of the first one, so that the
// compiler keeps only one base address.
constexpr unsigned FIRST_BARRIER = SPLIT ? smem::split_barriers::offset : smem::k_full::offset;
__device__ inline unsigned barrier(int index) { return in_shared(FIRST_BARRIER) + index * 8; }

// The addresses of a ring that all consumers share, from the names of its tiles and barriers in the manifest. With
// PARTS > 1 a tile is copied in parts, each of which has its own "full" barrier.
template <typename Tile, typename Tiles, typename Full, typename Free, int PARTS = 1>
struct SharedRing {
    __device__ unsigned tile(int stage) const { return in_shared(Tiles::offset) + stage * Tile::BYTES; }
    __device__ unsigned full(int stage) const { return barrier(index<Full>() + stage); }
    __device__ unsigned free(int stage) const { return barrier(index<Free>() + stage); }
    __device__ unsigned full(int stage, int part) const {
        return barrier(index<Full>() + (PARTS > 1 ? stage * PARTS + part : stage));
    }

private:
    template <typename Name>
    __device__ static constexpr int index() {
        return (Name::offset - FIRST_BARRIER) / 8;
    }
};

// The addresses of a ring that belongs to one consumer.
template <typename Tile, int STAGES>
struct ConsumerRing {
    unsigned tiles;     // addresses in shared memory
    unsigned barriers;  // "full" of each stage, then "free" of each

    __device__ __forceinline__ unsigned tile(int stage) const { return tiles + stage * Tile::BYTES; }
    __device__ __forceinline__ unsigned full(int stage) const { return barriers + stage * 8; }
    __device__ __forceinline__ unsigned free(int stage) const { return barriers + (STAGES + stage) * 8; }
};

// A ring of tiles. `Addresses` is SharedRing or ConsumerRing.
template <typename Tile_, int STAGES_, typename Addresses>
struct Ring : Addresses {
    using Tile = Tile_;
    static constexpr int STAGES = STAGES_;

    // Waits until the tile, or a part of it, has arrived.
    __device__ __forceinline__ void wait_full(const RingPosition& at) const {
        ptx::mbarrier_wait(this->full(at.stage), at.parity);
    }
    __device__ __forceinline__ void wait_full(const RingPosition& at, int part) const {
        ptx::mbarrier_wait(this->full(at.stage, part), at.parity);
    }
    // Waits until every reader has released the tile that was there before.
    __device__ __forceinline__ void wait_free(const RingPosition& at) const {
        ptx::mbarrier_wait(this->free(at.stage), at.parity ^ 1);
    }
    // Releases a tile for this warp.
    __device__ __forceinline__ void release(const RingPosition& at, bool when = true) const {
        if (lane() == 0 && when) ptx::mbarrier_arrive(this->free(at.stage));
    }
};

using QueryRing = Ring<QueryTile, Q_STAGES, SharedRing<QueryTile, smem::q_tile, smem::q_full, smem::q_free, Q_COPIES>>;
using KeyRing = Ring<KeyTile, STAGES, SharedRing<KeyTile, smem::k_tile, smem::k_full, smem::k_free>>;
using ValueRing = Ring<ValueTile, STAGES, SharedRing<ValueTile, smem::v_tile, smem::v_full, smem::v_free>>;

constexpr int RINGS = SPLIT ? CONSUMERS : 1;
static_assert(smem::q_tile::bytes == Q_STAGES * QueryTile::BYTES &&
                  smem::k_tile::bytes == RINGS * STAGES * KeyTile::BYTES &&
                  smem::v_tile::bytes == RINGS * STAGES * ValueTile::BYTES &&
                  smem::v_rows::bytes == (TRANSPOSES ? RINGS * V_ROW_STAGES * KeyTile::BYTES : 0),
              "as the manifest lays it out");

}  // namespace hopper
