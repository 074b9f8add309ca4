// FP8 products need the keys of a column of V side by side, but V is copied with the columns of a key side by side. So
// warps of the producer warpgroup transpose every tile within shared memory.
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
    // Where 16 keys of a column lie: keys 16 half and on of the step, row `row` of the matrix.
    __device__ __forceinline__ static unsigned chunk(unsigned tile, int row, int step, int half) {
        return tile + step * 32 / ROW * MATRIX_BYTES + tma::chunk_offset<ROW>(row, step * 32 % ROW / 16 + half);
    }
};

// Some warps that transpose tiles together.
struct Transposer {
    static constexpr int WARPS = 3;
    static constexpr int CHUNKS = HEAD_DIM / 16;             // of a row of V
    static constexpr int PARTS = BLOCK_N / 32 * CHUNKS;      // of a tile: 32 keys by 16 columns
    static constexpr int AT_ONCE = 2;                        // parts that a warp has in registers

    // Lane l reads 16 columns of key l.
    __device__ __forceinline__ static void load(unsigned (&r)[4], unsigned rows, int part) {
        const int step = part / CHUNKS, chunk = part % CHUNKS, chunks_of_box = ROW_BYTES / 16;
        ptx::load_matrix_x4_transposed(r, rows + chunk / chunks_of_box * KV_BOX_BYTES + step * 32 * ROW_BYTES +
                                              tma::chunk_offset<ROW_BYTES>(lane(), chunk % chunks_of_box));
    }
    // A lane has of 4 times 8 keys the keys 2q and 2q+1, each with columns 2c and 2c+1. Matrices of the result: even
    // columns of the first and the last 16 keys, then odd columns.
    __device__ __forceinline__ static void store(const unsigned (&r)[4], unsigned tile, int part) {
        const int step = part / CHUNKS, chunk = part % CHUNKS;
        const unsigned words[4] = {__byte_perm(r[0], r[1], 0x6420), __byte_perm(r[2], r[3], 0x6420),
                                   __byte_perm(r[0], r[1], 0x7531), __byte_perm(r[2], r[3], 0x7531)};
        const int row = chunk * 16 + lane() / 16 * 8 + lane() % 8;
        wgmma::store_matrix_x4(Transposed::chunk(tile, row, step, lane() / 8 % 2), words);
    }
    // This warp's parts of a tile. Then its lanes have read the copied tile, and products can read the transposed one.
    __device__ __forceinline__ static void transpose(unsigned rows, unsigned tile, int warp) {
#pragma unroll 1
        for (int first = warp; first < PARTS; first += WARPS * AT_ONCE) {
            unsigned r[AT_ONCE][4];
#pragma unroll
            for (int i = 0; i < AT_ONCE; ++i) {
                if (first + i * WARPS < PARTS) load(r[i], rows, first + i * WARPS);
            }
#pragma unroll
            for (int i = 0; i < AT_ONCE; ++i) {
                if (first + i * WARPS < PARTS) store(r[i], tile, first + i * WARPS);
            }
        }
        tma::fence_shared_writes();
        __syncwarp();
    }
};

}  // namespace hopper
