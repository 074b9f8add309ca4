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
// Sequences have lengths of their own (SERVING), so their units have different numbers of tiles. Every warp adds them up
// from the lengths in global memory, which a host need not know: a graph can be replayed after they change.
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

// The tiles of the keys that the rows of a batch entry see. There is at least one tile; if the rows see no key, it is
// beyond the last key. Threads keep it in registers, so it has no number that follows from the others.
struct Tiles {
    attention::SequenceSize size;
    attention::KeyRange needed;  // keys that any row sees; if none, the first is beyond the last key

    Tiles() = default;
    __device__ __forceinline__ Tiles(const Arguments& args, int batch) {
        if constexpr (SERVING) {
            size = attention::SequenceSize(args, batch);
            needed = attention::needed(args, size);
        } else {
            size.queries = args.seq_q;
            size.keys = args.seq_k;
            needed = {0, attention::visible_keys(args, args.seq_q - 1)};
        }
        if (needed.first >= needed.end) needed.first = max(args.seq_k, 1) + BLOCK_N;
    }
    // The first key of the first tile, a multiple of BLOCK_N.
    __device__ __forceinline__ int first_key() const { return SERVING ? needed.first / BLOCK_N * BLOCK_N : needed.first; }
    __device__ __forceinline__ int count() const { return max((needed.end - first_key() + BLOCK_N - 1) / BLOCK_N, 1); }
};

// Sums over the lanes of a warp.
__device__ __forceinline__ long long warp_sum(long long x) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) x += __shfl_xor_sync(0xffffffffu, x, distance);
    return x;
}
// The sum of this lane's number and those of the lanes before it.
__device__ __forceinline__ long long warp_prefix_sum(long long x) {
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        const long long before = __shfl_up_sync(0xffffffffu, x, distance);
        if (lane() >= distance) x += before;
    }
    return x;
}

// All lanes of a warp construct it and call its functions together: they read the lengths of 32 sequences at a time, if
// sequences have lengths of their own.
struct Work {
    int group;           // query heads of a key/value head
    int rows;            // packed rows of a key/value head; of a sequence there may be fewer
    int row_blocks;
    int units_of_batch;  // of one batch entry
    // Equal shares:
    int blocks;          // that have work
    long long share;     // tiles of a block, at least one;
    int longer;          // the first so many blocks have one more
    // Sequences with lengths of their own: the tiles of the batch entries `lane()`, 32 + `lane()` and so on. They are loaded at
    // once, because each load of lengths takes longer than everything that is computed from them.
    static constexpr int KEPT = 4;
    int kept_tiles[KEPT];

    // `most_blocks`: those of the launch that shares the keys.
    __device__ __forceinline__ Work(const Arguments& args, int most_blocks) {
        group = args.heads / args.kv_heads;
        rows = group * args.seq_q;
        row_blocks = (rows + ROWS - 1) / ROWS;
        units_of_batch = args.kv_heads * row_blocks;
        if constexpr (EQUAL_SHARES) {
            if (!have_equal_lengths(args)) {
#pragma unroll
                for (int i = 0; i < KEPT; ++i) kept_tiles[i] = tiles_of_batch(args, 32 * i + lane());
            }
            const long long all = tiles_before(args, args.batch);
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

    // Packed rows of a key/value head that a sequence has.
    __device__ __forceinline__ int rows_of(const Tiles& tiles) const { return SERVING ? group * tiles.size.queries : rows; }

    __device__ __forceinline__ static bool have_equal_lengths(const Arguments& args) {
        return !SERVING || (args.key_lengths == nullptr && args.key_starts == nullptr && args.query_starts == nullptr);
    }
    // The tiles of all units of the batch entries before `batch`.
    __device__ __forceinline__ long long tiles_before(const Arguments& args, int batch) const {
        if (have_equal_lengths(args)) return static_cast<long long>(batch) * units_of_batch * Tiles(args, 0).count();
        long long sum = 0;
#pragma unroll
        for (int i = 0; i < KEPT; ++i) sum += 32 * i + lane() < batch ? kept_tiles[i] : 0;
#pragma unroll 1
        for (int entry = 32 * KEPT + lane(); entry < batch; entry += 32) sum += tiles_of_batch(args, entry);
        return warp_sum(sum);
    }
    __device__ __forceinline__ int tiles_of_batch(const Arguments& args, int batch) const {
        return batch < args.batch ? units_of_batch * Tiles(args, batch).count() : 0;
    }
    // Looks for a tile among 32 batch entries from `first` on, each with `own` tiles; -1 if it is in a later one. `tile` is
    // counted from the first of them, and becomes its number in the batch entry or after them.
    __device__ __forceinline__ static int find_batch(int first, int own, long long& tile) {
        const long long end = warp_prefix_sum(own);
        const unsigned later = __ballot_sync(0xffffffffu, tile < end);
        const int found = later != 0 ? __ffs(later) - 1 : 31;
        tile -= __shfl_sync(0xffffffffu, later != 0 ? end - own : end, found);
        return later != 0 ? first + found : -1;
    }
    // The batch entry that has a tile. `tile`, counted through all units, becomes its number in the batch entry.
    __device__ __forceinline__ int batch_of(const Arguments& args, long long& tile) const {
        if (have_equal_lengths(args)) {
            const long long of_batch = static_cast<long long>(units_of_batch) * Tiles(args, 0).count();
            const long long batch = divided(tile, of_batch);
            tile -= batch * of_batch;
            return static_cast<int>(batch);
        }
#pragma unroll
        for (int i = 0; i < KEPT; ++i) {
            const int found = find_batch(32 * i, kept_tiles[i], tile);
            if (found >= 0) return found;
        }
#pragma unroll 1
        for (int first = 32 * KEPT;; first += 32) {
            const int found = find_batch(first, tiles_of_batch(args, first + lane()), tile);
            if (found >= 0) return found;
        }
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

// A packed row of Q or of O.
template <typename T>
__device__ __forceinline__ T* query_row(const Arguments& args, T* tensor, const attention::Strides& strides, int batch,
                                        const PackedRow& row) {
    if constexpr (SERVING) return attention::served_row(args, tensor, strides, batch, row.head, row.query);
    return attention::head_start(tensor, strides, batch, row.head) +
           static_cast<unsigned long long>(row.query) * strides.sequence;
}

// What a block computes: `left` tiles from tile `tile` of unit `unit` on, through the units that follow.
struct Share {
    int unit;
    int tile;
    int left;
    Tiles tiles;  // of the unit

    __device__ __forceinline__ Share(const Arguments& args, const Work& work) {
        if constexpr (EQUAL_SHARES) {
            const int block = blockIdx.x;
            const bool has_work = block < work.blocks;
            long long begin = has_work ? work.share_begin(block) : 0;
            left = has_work ? static_cast<int>(work.share_begin(block + 1) - begin) : 0;
            const int batch = SERVING ? work.batch_of(args, begin) : 0;
            tiles = Tiles(args, batch);
            const int of_batch = static_cast<int>(divided(begin, tiles.count()));
            unit = batch * work.units_of_batch + of_batch;
            tile = static_cast<int>(begin - static_cast<long long>(of_batch) * tiles.count());
        } else {
            const long long rank = blockIdx.x % BLOCKS_OF_UNIT;
            unit = blockIdx.x / BLOCKS_OF_UNIT;
            tiles = Tiles(args, SERVING ? unit / work.units_of_batch : 0);
            tile = static_cast<int>(tiles.count() * rank / BLOCKS_OF_UNIT);
            left = static_cast<int>(tiles.count() * (rank + 1) / BLOCKS_OF_UNIT) - tile;
        }
    }
    // How many of the next tiles belong to the present unit.
    __device__ __forceinline__ int left_of_unit() const { return min(left, tiles.count() - tile); }
    // The first key of the present tile.
    __device__ __forceinline__ int first_key() const { return tiles.first_key() + tile * BLOCK_N; }
    // Goes on to the next tile.
    __device__ __forceinline__ void advance(const Arguments& args, const Work& work) {
        --left;
        ++tile;
        if (tile == tiles.count()) {
            tile = 0;
            ++unit;
            if (SERVING && left > 0 && unit % work.units_of_batch == 0) tiles = Tiles(args, unit / work.units_of_batch);
        }
    }
};

}  // namespace decode
