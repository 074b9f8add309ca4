// Tiles of K, V and Q as tensor copies leave them in shared memory, and positions in rings of tiles. For sm_90a.
#pragma once

#include "common/ptx.cuh"
#include "common/tma.cuh"
#include "common/wgmma.cuh"

namespace tma {

// ROWS rows of all HEAD_DIM columns. A tile is a row of boxes, whose rows have BYTES_OF_ROW bytes:
//
//   box 0: row 0, row 1, ... of the first columns
//   box 1: the same rows of the next columns, and so on
//
// The 16-byte chunks of a row are swizzled (`tma.cuh`).
template <typename Element, int HEAD_DIM, int ROWS, int BYTES_OF_ROW = ROW_BYTES>
struct CopiedTile {
    static constexpr int BOX_COLUMNS = BYTES_OF_ROW / sizeof(Element);
    static constexpr int BOXES = (HEAD_DIM + BOX_COLUMNS - 1) / BOX_COLUMNS;
    static constexpr unsigned BOX_BYTES = ROWS * BYTES_OF_ROW;
    static constexpr unsigned BYTES = BOXES * BOX_BYTES;
    static_assert(BOX_BYTES % SWIZZLE_BYTES == 0, "boxes begin where the swizzle does");
    static_assert(HEAD_DIM % 16 == 0, "products have 16 columns at least");

    // Copies rows of one head, from `row` on. Their bytes count on the barrier `full`, which must expect them.
    __device__ __forceinline__ static void load(unsigned tile, const TensorMap& map, int row, int head, int batch,
                                                unsigned full) {
#pragma unroll
        for (int box = 0; box < BOXES; ++box)
            tma::load(tile + box * BOX_BYTES, map, box * BOX_COLUMNS, row, head, batch, full);
    }
    // The same for a barrier of one arrival, which is this one.
    __device__ __forceinline__ static void copy(unsigned tile, const TensorMap& map, int row, int head, int batch,
                                                unsigned full) {
        tma::arrive_and_expect(full, BYTES);
        load(tile, map, row, head, batch, full);
    }

    // As a factor of Q K^T, whose depth is head_dim: 32 bytes of every row, number `step` of them.
    __device__ __forceinline__ static unsigned long long depth_step(unsigned long long tile, int step) {
        constexpr int STEPS_OF_BOX = BYTES_OF_ROW / 32;
        return wgmma::advance(tile, step / STEPS_OF_BOX * BOX_BYTES + step % STEPS_OF_BOX * 32);
    }

    // As the right factor of P V in 16-bit types, whose depth is the rows: the rows from 16 `step` on.
    __device__ __forceinline__ static unsigned long long rows_step(unsigned tile, int step) {
        return wgmma::advance(wgmma::rows_along_columns(tile, BOX_BYTES), step * 16 * ROW_BYTES);
    }
};

// A position in a ring: the stage, and the parity of the phase in which its tile is filled.
struct RingPosition {
    int stage = 0;
    unsigned parity = 0;

    template <int STAGES_OF_RING>
    __device__ __forceinline__ void advance() {
        if constexpr (STAGES_OF_RING == 1) {
            parity ^= 1;
        } else if (++stage == STAGES_OF_RING) {
            stage = 0;
            parity ^= 1;
        }
    }
};

}  // namespace tma
