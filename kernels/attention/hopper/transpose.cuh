// FP8: transposes tiles of V. The tensor cores need the keys of a column side by side, but a copied tile has the columns
// of a key side by side. Three warps of the producer warpgroup transpose every tile in shared memory, from a CopiedTile
// to a TransposedTile. With TRANSPOSE before, a first launch has done it (`transpose_before.cuh`).
//
//   ldmatrix.trans      8x8 matrices of pairs of columns: a lane gets the keys 2q and 2q+1, each with two columns
//   prmt                even columns of 4 keys in one register, odd columns in another
//   stmatrix            rows of 16 keys
//
// So the order within a transposed tile is that of the lanes. Of 16 columns the 8 even ones come first. Of 32 keys,
// position 16 h + 4 q + i has the key 8 (2 h + i / 2) + 2 q + i % 2. The weights have the same order of keys in their
// registers.
#pragma once

#include "hopper/tiles.cuh"

namespace hopper {

// The warps that transpose a tile together, each every third group of 16 columns. All addresses are a lane's own one, XOR
// and plus constants, which takes few instructions.
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
        tile_lane = tma::chunk_offset<TransposedTile::ROW>(l / 16 * 8 + l % 8, l / 8 % 2);
    }

    // r: of each of 4 groups of 8 keys, the keys 2q and 2q+1 with the columns 2c and 2c+1. The result has four matrices: the
    // even columns of the first and of the last 16 keys, then the odd columns.
    __device__ __forceinline__ static void store(const unsigned (&r)[4], unsigned to) {
        const unsigned words[4] = {__byte_perm(r[0], r[1], 0x6420), __byte_perm(r[2], r[3], 0x6420),
                                   __byte_perm(r[0], r[1], 0x7531), __byte_perm(r[2], r[3], 0x7531)};
        wgmma::store_matrix_x4(to, words);
    }
    // Transposes this warp's part of a tile. Afterwards its lanes have read the rows, and products can read the result.
    __device__ __forceinline__ void transpose(unsigned rows, unsigned tile, unsigned warp) const {
#pragma unroll 1
        for (unsigned group = warp; group < GROUPS; group += WARPS) {
            const unsigned from = rows + group / BOX_GROUPS * KeyTile::BOX_BYTES + (rows_lane ^ group % BOX_GROUPS * 16);
            const unsigned to = tile + group * 16 * TransposedTile::ROW;
#pragma unroll
            for (int first = 0; first < STEPS; first += AT_ONCE) {
                unsigned r[AT_ONCE][4];
#pragma unroll
                for (int step = first; step < first + AT_ONCE && step < STEPS; ++step)
                    ptx::load_matrix_x4_transposed(r[step - first], from + step * 32 * ROW_BYTES);
#pragma unroll
                for (int step = first; step < first + AT_ONCE && step < STEPS; ++step) {
                    const unsigned matrix = step * 32 / TransposedTile::ROW * TransposedTile::MATRIX_BYTES;
                    store(r[step - first], to + matrix + (tile_lane ^ step * 32 % TransposedTile::ROW));
                }
            }
        }
        tma::fence_shared_writes();
        __syncwarp();
    }
};

}  // namespace hopper
