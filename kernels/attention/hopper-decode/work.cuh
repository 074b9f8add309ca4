// How the keys are divided among the blocks.
//
// The query heads of a key/value head read the same keys. Their rows are packed: row p is query p / group of the head
// p % group. Up to ROWS packed rows are one row block, which a block of threads computes at once. A unit of work is one
// row block of one key/value head of one batch entry, with all its tiles of BLOCK_N keys.
//
//   unit      0                       1                       2
//   tiles     0   1   2   3   4   5   0   1   2   3   4   5   0   1   2   3   4   5
//   shares    |---- block 0 ----|---- block 1 ----|---- block 2 ----|---- block 3 --|
//
// Equal shares (CLUSTER 0): the blocks share all tiles of all units evenly. A block may have the end of one unit, some
// whole units, and the beginning of another. Clusters: CLUSTER blocks share the tiles of one unit evenly.
//
// Where a block has only a part of a unit, it leaves a partial result; `combine.cuh` has what becomes of it.
#pragma once

#include "hopper-decode/candidate.cuh"

namespace decode {

// Divides by 32-bit instructions where that is possible: a 64-bit division takes a few hundred cycles.
__device__ __forceinline__ long long divided(long long number, long long by) {
    if ((number | by) >> 32 == 0) return static_cast<unsigned>(number) / static_cast<unsigned>(by);
    return number / by;
}

struct Work {
    int group;       // query heads of a key/value head
    int rows;        // packed rows of a key/value head
    int row_blocks;
    int tiles;       // of a unit, at least one
    int first_key;   // of the first tile: 0, or beyond the last key if no row sees any
    // Equal shares:
    int blocks;      // that have work
    long long share; // tiles of a block, at least one;
    int longer;      // the first so many blocks have one more

    // `most_blocks`: those of the launch that shares the keys.
    __device__ __forceinline__ Work(const Arguments& args, int most_blocks) {
        group = args.heads / args.kv_heads;
        rows = group * args.seq_q;
        row_blocks = (rows + ROWS - 1) / ROWS;
        const int seen = max(attention::visible_keys(args, args.seq_q - 1), 0);
        first_key = seen > 0 ? 0 : max(args.seq_k, 1);
        tiles = max((seen + BLOCK_N - 1) / BLOCK_N, 1);
        if constexpr (EQUAL_SHARES) {
            const long long all = static_cast<long long>(args.batch) * args.kv_heads * row_blocks * tiles;
            blocks = static_cast<int>(min(all, static_cast<long long>(most_blocks)));
            share = divided(all, blocks);
            longer = static_cast<int>(all - share * blocks);
        }
    }
    // Equal shares: the first tile of a block, counted through all units.
    __device__ __forceinline__ long long share_begin(int block) const { return share * block + min(block, longer); }
    // Equal shares: the block that has a tile.
    __device__ __forceinline__ int block_of(long long tile) const {
        const long long of_longer = longer * (share + 1);
        return static_cast<int>(tile < of_longer ? divided(tile, share + 1) : longer + divided(tile - of_longer, share));
    }
};

// A unit of work by its parts.
struct Unit {
    int batch;
    int kv_head;
    int first_row;  // packed

    __device__ __forceinline__ Unit(const Arguments& args, const Work& work, int unit) {
        const int head = unit / work.row_blocks;
        first_row = unit % work.row_blocks * ROWS;
        batch = head / args.kv_heads;
        kv_head = head % args.kv_heads;
    }
};

// A packed row by its parts. The row may not exist.
struct PackedRow {
    int head;
    int query;

    __device__ __forceinline__ PackedRow(const Work& work, int kv_head, int row)
        : head(kv_head * work.group + row % work.group), query(row / work.group) {}
};

// What a block computes: `tiles` tiles from tile `tile` of unit `unit` on, through the units that follow.
struct Share {
    int unit;
    int tile;
    int tiles;

    __device__ __forceinline__ explicit Share(const Work& work) {
        if constexpr (EQUAL_SHARES) {
            const int block = blockIdx.x;
            const bool has_work = block < work.blocks;
            const long long begin = has_work ? work.share_begin(block) : 0;
            unit = static_cast<int>(divided(begin, work.tiles));
            tile = static_cast<int>(begin - static_cast<long long>(unit) * work.tiles);
            tiles = has_work ? static_cast<int>(work.share_begin(block + 1) - begin) : 0;
        } else {
            const long long rank = blockIdx.x % BLOCKS_OF_UNIT;
            unit = blockIdx.x / BLOCKS_OF_UNIT;
            tile = static_cast<int>(work.tiles * rank / BLOCKS_OF_UNIT);
            tiles = static_cast<int>(work.tiles * (rank + 1) / BLOCKS_OF_UNIT) - tile;
        }
    }
    // How many of the next tiles belong to the present unit.
    __device__ __forceinline__ int tiles_of_unit(const Work& work) const { return min(tiles, work.tiles - tile); }
    // Goes on by some tiles of the present unit.
    __device__ __forceinline__ void advance(const Work& work, int by) {
        tiles -= by;
        tile += by;
        if (tile == work.tiles) {
            tile = 0;
            ++unit;
        }
    }
};

}  // namespace decode
