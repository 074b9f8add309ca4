// FP8 products need the keys of a column of V side by side, but V is copied with the columns of a key side by side. So
// warps of the producer warpgroup transpose every tile within shared memory. Or a launch before has done it, see
// `transpose_before.cuh`.
//
// A transposed tile has a row for each column of V, and in the row 32, 64 or 128 keys, swizzled like a box of the copies.
// Tiles with more keys have further such matrices. In each group of 16 columns the 8 even ones come first. In each group
// of 32 keys, position 16 h + 4 q + i has the key 8 (2 h + i / 2) + 2 q + i % 2: both are the orders in which the lanes
// get the elements, and the weights have the same order of keys in their registers.
#pragma once

#include "hopper/candidate.cuh"

namespace hopper {

struct Transposed {
    static constexpr int ROW = BLOCK_N % 128 == 0 ? 128 : BLOCK_N % 64 == 0 ? 64 : 32;  // bytes, one per key
    static constexpr int MATRIX_BYTES = HEAD_DIM * ROW;

    // The descriptor of the keys 32 step to 32 step + 31.
    __device__ __forceinline__ static unsigned long long step(unsigned tile, int step) {
        return wgmma::advance(wgmma::rows_along_depth<ROW>(tile), step * 32 / ROW * MATRIX_BYTES + step * 32 % ROW);
    }
};

// Some warps that transpose tiles together, each some groups of 16 columns. It takes few instructions: all addresses are
// a lane's own one, XOR and plus constants.
struct Transposer {
    static constexpr int WARPS = 3;
    static constexpr unsigned GROUPS = HEAD_DIM / 16;              // of 16 columns
    static constexpr unsigned BOX_GROUPS = ROW_BYTES / 16;
    static constexpr int STEPS = BLOCK_N / 32;
    static constexpr int AT_ONCE = CONSUMERS == 2 && !SPLIT ? 4 : 3;  // steps that a warp has in registers

    unsigned rows_lane;  // where the lane reads group 0: its key is the lane's number
    unsigned tile_lane;  // where it writes group 0, a row of 16 keys

    __device__ __forceinline__ Transposer() {
        const unsigned l = lane();
        rows_lane = tma::chunk_offset<ROW_BYTES>(l, 0);
        tile_lane = tma::chunk_offset<Transposed::ROW>(l / 16 * 8 + l % 8, l / 8 % 2);
    }

    // A lane has of 4 times 8 keys the keys 2q and 2q+1, each with columns 2c and 2c+1. Matrices of the result: even
    // columns of the first and the last 16 keys, then odd columns.
    __device__ __forceinline__ static void store(const unsigned (&r)[4], unsigned to) {
        const unsigned words[4] = {__byte_perm(r[0], r[1], 0x6420), __byte_perm(r[2], r[3], 0x6420),
                                   __byte_perm(r[0], r[1], 0x7531), __byte_perm(r[2], r[3], 0x7531)};
        wgmma::store_matrix_x4(to, words);
    }
    // This warp's part of a tile. Then its lanes have read the rows, and products can read the transposed tile.
    __device__ __forceinline__ void transpose(unsigned rows, unsigned tile, unsigned warp) const {
#pragma unroll 1
        for (unsigned group = warp; group < GROUPS; group += WARPS) {
            const unsigned from = rows + group / BOX_GROUPS * KV_BOX_BYTES + (rows_lane ^ group % BOX_GROUPS * 16);
            const unsigned to = tile + group * 16 * Transposed::ROW;
#pragma unroll
            for (int first = 0; first < STEPS; first += AT_ONCE) {
                unsigned r[AT_ONCE][4];
#pragma unroll
                for (int step = first; step < first + AT_ONCE && step < STEPS; ++step)
                    ptx::load_matrix_x4_transposed(r[step - first], from + step * 32 * ROW_BYTES);
#pragma unroll
                for (int step = first; step < first + AT_ONCE && step < STEPS; ++step) {
                    const unsigned matrix = step * 32 / Transposed::ROW * Transposed::MATRIX_BYTES;
                    store(r[step - first], to + matrix + (tile_lane ^ step * 32 % Transposed::ROW));
                }
            }
        }
        tma::fence_shared_writes();
        __syncwarp();
    }
};

}  // namespace hopper
