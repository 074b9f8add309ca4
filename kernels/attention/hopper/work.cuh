// Work tiles: which query rows a block computes, in which order, and which keys they see.
//
// A work tile is BLOCK_M query rows of one head. Its steps run from the last visible keys to the first, so that steps with
// masked keys come first:
//
//            keys 0        BLOCK_N                                  causal mask
//   row 0    | step 3     | step 2     | step 1 \xxx| step 0 xxxx|   x: masked
//   ...      |            |            |          \x|       xxxxx|   steps 0 and 1 are masked steps
//   row M-1  |            |            |            | \         xx|
//
// With KEY_ORDER forward they run from the first keys to the last, and masked steps come last: the first step, which finds
// the running maximum, then has all its keys.
#pragma once

#include "hopper/tiles.cuh"

namespace hopper {

// Tiles of BLOCK_N keys, and one more, beyond the last key.
__device__ __forceinline__ int tiles_of_keys(const Arguments& args) { return (args.seq_k + BLOCK_N - 1) / BLOCK_N + 1; }

// The sequence of a work tile, only of problems for serving. There, queries are rows of Q and O, which may have other sequences
// before them, and keys count from the first key of the tile's last step.
template <bool>
struct SequenceOfTile {
    static constexpr int diagonal = 0, keys = 0;
    __device__ __forceinline__ void set_sequence(int, int) {}
};
template <>
struct SequenceOfTile<true> {
    int diagonal = 0;  // a query's position less its row
    int keys = 0;      // of the sequence

    __device__ __forceinline__ void set_sequence(int diagonal_, int keys_) {
        diagonal = diagonal_;
        keys = keys_;
    }
};

// Up to BLOCK_M query rows of one head, and the steps of BLOCK_N keys that any of them sees. There is at least one step:
// where no row sees a key, it has keys beyond the last, which are masked.
struct alignas(16) WorkTile : SequenceOfTile<SERVING> {
    int batch;
    int head;
    int first_query;
    int end_query;               // consumers whose rows begin here or later have no rows
    int first_key_of_all;        // 0, or beyond the last key; for serving that of the last step
    int steps;                   // 0: no work tile is left
    int masked;                  // so many steps have keys that some row does not see

    __device__ __forceinline__ WorkTile()
        : batch(0), head(0), first_query(0), end_query(0), first_key_of_all(0), steps(0), masked(0) {}
    __device__ __forceinline__ WorkTile(const Arguments& args, int query_block, int head_of_batch)
        : WorkTile(args, query_block * BLOCK_M, args.seq_q, head_of_batch % args.heads, head_of_batch / args.heads) {}
    __device__ __forceinline__ WorkTile(const Arguments& args, int first_query_, int end_query_, int head_, int batch_)
        : batch(batch_), head(head_), first_query(first_query_), end_query(end_query_) {
        const int last_query = min(first_query + BLOCK_M, args.seq_q) - 1;
        const int seen_by_any = max(attention::visible_keys(args, last_query), 0);
        const int seen_by_all = max(attention::visible_keys(args, first_query), 0);
        first_key_of_all = seen_by_any == 0 ? max(args.seq_k, 1) : 0;
        steps = max((seen_by_any + BLOCK_N - 1) / BLOCK_N, 1);
        masked = steps - seen_by_all / BLOCK_N;
    }
    __device__ __forceinline__ int first_key(int step) const { return first_key_of_all + tile(step) * BLOCK_N; }
    __device__ __forceinline__ int tile(int step) const { return FORWARD ? step : steps - 1 - step; }
    // The number of the step's tile among those of its head; there is one more, beyond the last key.
    __device__ __forceinline__ int tile_of_keys(const Arguments& args, int step) const {
        return first_key_of_all == 0 ? tile(step) : tiles_of_keys(args) - 1;
    }
};

// The work tile whose queries are in this stage.
__device__ inline WorkTile* work_of(int stage) {
    return reinterpret_cast<WorkTile*>(shared_memory + smem::work::offset) + stage;
}

// The batch entry of Q and O that has the queries of a work tile: packed sequences share one.
__device__ __forceinline__ int query_entry(const Arguments& args, const WorkTile& work) {
    return SERVING && args.query_starts != nullptr ? 0 : work.batch;
}
// The end of the rows that exist.
__device__ __forceinline__ int end_of_queries(const Arguments& args, const WorkTile& work) {
    return SERVING ? work.end_query : args.seq_q;
}

// The scales of a head's elements: 1 for 16-bit types; with BLOCK_SCALES 1 for keys and values.
struct alignas(16) HeadScales {
    float query = 1.0f;
    float key = 1.0f;
    float value = 1.0f;

    __device__ __forceinline__ HeadScales() {}
    // `first_row` is the first of the warpgroup's 64 rows.
    __device__ __forceinline__ HeadScales(const Arguments& args, const WorkTile& work, int first_row) {
        const int kv_head = attention::kv_head_of(args, work.head);
        if constexpr (BLOCK_SCALES) {
            const int head = attention::first_scale(args, work.batch * args.heads + work.head, args.seq_q, 64);
            if (args.q_scale != nullptr) query = args.q_scale[head + (args.block_scales != 0 ? first_row / 64 : 0)];
        } else if constexpr (FP8) {
            query = attention::head_scale(args.q_scale, args.heads, work.batch, work.head);
            key = attention::head_scale(args.k_scale, args.kv_heads, work.batch, kv_head);
            value = attention::head_scale(args.v_scale, args.kv_heads, work.batch, kv_head);
        }
    }
    // What products of queries and keys must be multiplied by to become exponents of 2.
    __device__ __forceinline__ float score(const Arguments& args) const {
        // A cap has made tanh(softmax_scale * s / softcap) of the products s.
        if constexpr (CAPPED) return args.softcap * LOG2_E;
        return args.softmax_scale * LOG2_E * (query * key);
    }
};

// BLOCK_SCALES: the scales of the keys and values of one step.
struct StepScales {
    float key = 1.0f;
    float value = 1.0f;

    __device__ __forceinline__ StepScales() {}
    __device__ __forceinline__ StepScales(const Arguments& args, const WorkTile& work, int step) {
        if (!BLOCK_SCALES || work.first_key_of_all != 0) return;  // there, no key is seen
        const int head = work.batch * args.kv_heads + attention::kv_head_of(args, work.head);
        const int at = attention::first_scale(args, head, args.seq_k, BLOCK_N) +
                       (args.block_scales != 0 ? work.tile(step) : 0);
        if (args.k_scale != nullptr) key = args.k_scale[at];
        if (args.v_scale != nullptr) value = args.v_scale[at];
    }
};

// The work tiles of one block.
//
// Without a mask all tiles are equally long, and blocks take them in turns, head after head. With EVEN_ROWS the blocks
// share the rows evenly instead, in units of 64: a block takes its units one after the other, at most one for each
// consumer at a time and of one head. This makes more tiles, but all blocks end at about the same time.
//
// Under a causal mask the longest tiles come first. The heads are divided into groups, so that the blocks read the keys
// and values of few heads at a time. With as many blocks as tiles, the GPU gives the next tile to the first block that is
// done. A fixed number of blocks takes the tiles of a group in rounds, and every second round backwards: the block with
// the longest tile of one round has the shortest of the next. A group has an even number of rounds if its size allows it.
struct Schedule {
    const Arguments& args;
    const int query_blocks;
    const int heads;
    const int block = blockIdx.x;
    int round = 0;

    __device__ __forceinline__ explicit Schedule(const Arguments& args_)
        : args(args_), query_blocks((args.seq_q + BLOCK_M - 1) / BLOCK_M), heads(args.heads * args.batch) {}

    // The next work tile, or one without steps.
    __device__ __forceinline__ WorkTile next() {
        if constexpr (BLOCKS == 0) {
            return round++ == 0 ? only() : WorkTile();
        } else {
            if (args.mask != attention::Mask::none) return next_longest();
            return knob::EVEN_ROWS && query_blocks * heads > BLOCKS ? next_rows() : next_equal();
        }
    }

private:
    __device__ __forceinline__ WorkTile only() const {
        if (args.mask == attention::Mask::none)
            return WorkTile(args, block % query_blocks, block / query_blocks);
        // Keys and values of a group fit the L2 cache beside everything else.
        const long long bytes_per_head = 2ll * sizeof(Element) * max(args.seq_k, 1) * HEAD_DIM;
        const int group_heads = max(1, min(heads, static_cast<int>((32ll << 20) / bytes_per_head)));
        return longest_first(group_heads, block / (group_heads * query_blocks),
                             block % (group_heads * query_blocks));
    }
    __device__ __forceinline__ WorkTile next_equal() {
        const int at = round++ * BLOCKS + block;
        return at < query_blocks * heads ? WorkTile(args, at % query_blocks, at / query_blocks) : WorkTile();
    }
    // A block's first unit of 64 rows.
    __device__ __forceinline__ int share(int of_block, int units) const {
        return static_cast<long long>(units) * heads * of_block / (BLOCKS > 0 ? BLOCKS : 1);
    }
    // `round` is the number of units that the block has taken.
    __device__ __forceinline__ WorkTile next_rows() {
        const int units = (args.seq_q + 63) / 64;
        const int at = share(block, units) + round, head = at / units, unit = at % units;
        const int count = min(min(BLOCK_M / 64, share(block + 1, units) - at), units - unit);
        if (count <= 0) return WorkTile();
        round += count;
        return WorkTile(args, unit * 64, (unit + count) * 64, head % args.heads, head / args.heads);
    }
    __device__ __forceinline__ WorkTile next_longest() {
        constexpr int MOST_HEADS = 34;  // read at a time
        constexpr int WIDTH = BLOCKS > 0 ? BLOCKS : 1;
        const int rounds_to_fill = max(1, MOST_HEADS * query_blocks / (2 * WIDTH)) * 2;
        const int group_heads = min(heads, max(1, rounds_to_fill * WIDTH / query_blocks));
        const int rounds = (group_heads * query_blocks + WIDTH - 1) / WIDTH;
        int group = round / rounds, within = round % rounds;
        int at = within * WIDTH + (within % 2 == 0 ? block : WIDTH - 1 - block);
        // Only the last round of a group can have no tile for this block: the next group's first one follows.
        if (at >= tiles_of(group, group_heads)) {
            ++group;
            round = group * rounds;
            at = block;
        }
        ++round;
        return at < tiles_of(group, group_heads) ? longest_first(group_heads, group, at) : WorkTile();
    }
    __device__ __forceinline__ int tiles_of(int group, int group_heads) const {
        return min(group_heads, heads - group * group_heads) * query_blocks;
    }
    __device__ __forceinline__ WorkTile longest_first(int group_heads, int group, int at) const {
        const int first_head = group * group_heads, heads_here = min(group_heads, heads - first_head);
        return WorkTile(args, query_blocks - 1 - at / heads_here, first_head + at % heads_here);
    }
};

}  // namespace hopper
