// Problems for serving: sequences with lengths of their own, packed or with a batch entry each, caches in pages, windows,
// sinks and softcap. The consumers are those of `stream.cuh`; this file has the four warps of the producer warpgroup:
//
//   scheduler        finds the work tiles, up to two ahead
//   copier of keys   copies queries and keys, and tells the consumers the work tiles
//   copier of values
//   hider            sets values that no query may see to zeros
//
// Order of the work. Sequences have different numbers of work tiles, of different lengths, and no host knows them. The tiles
// have an order, longest first, which every block computes from the lengths in global memory, and a block takes one of every
// BLOCKS tiles, as in `Schedule`: in rounds that run forwards and backwards. A tile's level is its place on the diagonal, so at
// most one tile of a head has a level, and tiles of one level have about the same number of steps:
//
//               level 3   2   1   0                                causal mask, no window
//   sequence 0            x   x   x     3 tiles, no earlier keys
//   sequence 1        x   x             2 tiles after 2 tiles of earlier keys
//   sequence 2                    x     1 tile
//
//   order: 1 of level 3, then 0 and 1 of level 2, 0 of level 1, 0 and 2 of level 0; each for all heads of a group
//
// Without a causal mask all tiles of a sequence have one level, its length. Heads are divided into groups whose keys and values
// fit the L2 cache. Every second group runs from the shortest tile to the longest, so that the length of the tiles of a round
// changes little between two groups; the last one ends with the shortest.
//
// Hidden values. Keys beyond a sequence or before its windows have the weight 0, but their memory may hold anything, and 0 times
// NaN is NaN. Where a tile has such values beside needed ones, the hider sets them to zeros between their copy and their use:
//
//   copier --(values_copied)--> hider --(v_full)--> consumers --(v_free)--> copier
//   copier --------------------(v_full)-----------> consumers                         if all values are needed
//
// The hider sees every tile in order, so it needs no schedule of its own.
#pragma once

#include "hopper/work.cuh"

namespace hopper {

// ---- the work ----

// A work tile as the copiers have it.
struct ServedTile : WorkTile {
    attention::KeyRange needed;  // keys that any query of the sequence sees
};
static_assert(!SERVING || smem::served_tiles::bytes == 2 * sizeof(ServedTile), "as the manifest lays it out");

// The tiles on their way from the scheduler to the two copiers, which may be two tiles behind.
__device__ inline ServedTile* served_tile(int which) {
    return reinterpret_cast<ServedTile*>(shared_memory + smem::served_tiles::offset) + which;
}
__device__ inline unsigned tile_found(int which) { return barrier((smem::tile_found::offset - FIRST_BARRIER) / 8 + which); }
__device__ inline unsigned tile_taken(int which) { return barrier((smem::tile_taken::offset - FIRST_BARRIER) / 8 + which); }
__device__ inline void init_served_barriers() {
    for (int which = 0; which < 2; ++which) {
        ptx::mbarrier_init(tile_found(which), 1);
        ptx::mbarrier_init(tile_taken(which), 2);
    }
}

// Where a block is in the order of all work tiles.
struct ServedPlace {
    int group_heads = 0;             // key/value heads of a group, except perhaps the last
    int groups = 0;
    int highest = NONE;              // level of any sequence
    int lowest = NONE;
    int group = 0;
    int level = NONE;                // negated in groups that run from short to long
    int next_level = NONE;           // the highest level below that the sequences seen so far have
    int first = 0;                   // of the 32 sequences to search next
    int before = 0;                  // tiles before these sequences at this level
    int round = 0;

    static constexpr int NONE = -0x7fffffff;

    __device__ __forceinline__ bool is_rising() const { return (groups - 1 - group) % 2 != 0; }
    __device__ __forceinline__ void begin_group() { level = is_rising() ? -lowest : highest; }
};

// ---- the scheduler, one warp ----

// All lanes call its functions together.
struct ServedSchedule {
    const Arguments& args;
    ServedPlace at;

    static constexpr int WIDTH = BLOCKS > 0 ? BLOCKS : 1;

    // The levels of a sequence's tiles, and how many each of its heads has at each. Without a tile, `last` < `first`.
    struct Levels {
        int first = 0;
        int last = -1;
        int tiles = 0;
        int keys = 0;

        __device__ __forceinline__ Levels(const Arguments& args, int batch) {
            if (batch >= args.batch) return;
            const attention::SequenceSize size(args, batch);
            const int blocks = (size.queries + BLOCK_M - 1) / BLOCK_M;
            keys = max(size.keys, 0);
            if (blocks == 0) return;
            const bool is_causal = args.mask == attention::Mask::causal;
            first = (is_causal ? attention::position_of(args, size, 0) : keys) / BLOCK_M;
            last = is_causal ? first + blocks - 1 : first;
            tiles = is_causal ? 1 : blocks;
        }
        __device__ __forceinline__ int blocks() const { return tiles * (last - first + 1); }
    };

    // Before the first tile.
    __device__ __forceinline__ void begin() {
        int highest = ServedPlace::NONE, lowest = ServedPlace::NONE, blocks = 0;
        float keys = 0.0f;
#pragma unroll 1
        for (int batch = lane(); batch < args.batch; batch += 32) {
            const Levels levels(args, batch);
            blocks += levels.blocks();
            keys += static_cast<float>(levels.keys);
            if (levels.last < levels.first) continue;
            highest = max(highest, levels.last);
            lowest = max(lowest, -levels.first);
        }
        at.highest = __reduce_max_sync(0xffffffffu, highest);
        at.lowest = -__reduce_max_sync(0xffffffffu, lowest);
        blocks = __reduce_add_sync(0xffffffffu, blocks);
        keys = group_sum<32>(keys);
        // Keys and values of a group fit the L2 cache beside everything else, but it has some rounds.
        constexpr int ROUNDS = 8;
        const float bytes_of_head = keys * (2.0f * sizeof(Element) * HEAD_DIM);
        const int fitting = static_cast<int>(fminf((32 << 20) / fmaxf(bytes_of_head, 1.0f), 65536.0f));
        const int tiles = max(blocks, 1) * (args.heads / args.kv_heads);
        at.group_heads = min(args.kv_heads, max(max(fitting, 1), (ROUNDS * WIDTH + tiles - 1) / tiles));
        at.groups = blocks > 0 ? (args.kv_heads + at.group_heads - 1) / at.group_heads : 0;
        at.begin_group();
    }

    // Writes the next work tile of this block, or one without steps. Returns whether it has steps.
    __device__ __forceinline__ bool next(ServedTile* to) {
        const int block = blockIdx.x;
        const int number = at.round * WIDTH + (at.round % 2 == 0 ? block : WIDTH - 1 - block);
        ++at.round;
        ServedTile tile;
#pragma unroll 1
        while (at.group < at.groups) {
            const Levels levels(args, at.first + lane());
            const bool is_rising = at.is_rising();
            const int from = is_rising ? -levels.last : levels.first, last = is_rising ? -levels.first : levels.last;
            const int heads_of_kv = args.heads / args.kv_heads, first_kv = at.group * at.group_heads;
            const int heads = min(at.group_heads, args.kv_heads - first_kv) * heads_of_kv;
            const int own = from <= at.level && at.level <= last ? levels.tiles * heads : 0;
            const int below = from <= last && from < at.level ? min(at.level - 1, last) : ServedPlace::NONE;
            at.next_level = max(at.next_level, __reduce_max_sync(0xffffffffu, below));
            const int end = at.before + prefix_sum(own);
            const unsigned later = __ballot_sync(0xffffffffu, number < end);
            if (later != 0) {
                const int found = __ffs(later) - 1, within = number - __shfl_sync(0xffffffffu, end - own, found);
                const int base = __shfl_sync(0xffffffffu, levels.first, found);
                const bool is_causal = args.mask == attention::Mask::causal;
                const int query_block = is_causal ? (is_rising ? -at.level : at.level) - base : within / heads;
                tile = tile_of(at.first + found, query_block, first_kv * heads_of_kv + within % heads);
                break;
            }
            at.before = __shfl_sync(0xffffffffu, end, 31);
            at.first += 32;
            if (at.first >= args.batch) next_level();
        }
        if (lane() == 0) *to = tile;
        return tile.steps > 0;
    }

    // Finds all work tiles of the block.
    __device__ __forceinline__ void run() {
        begin();
        RingPosition to;
        bool more = true;
#pragma unroll 1
        while (more) {
            ptx::mbarrier_wait(tile_taken(to.stage), to.parity ^ 1);
            more = next(served_tile(to.stage));
            if (lane() == 0) ptx::mbarrier_arrive(tile_found(to.stage));
            to.advance<2>();
        }
    }

private:
    // Goes on to the next level, or to the next group.
    __device__ __forceinline__ void next_level() {
        at.first = 0;
        at.level = at.next_level;
        at.next_level = ServedPlace::NONE;
        if (at.level == ServedPlace::NONE) {
            ++at.group;
            at.begin_group();
        }
    }
    // The sum of this lane's number and those of the lanes before it.
    __device__ __forceinline__ static int prefix_sum(int x) {
#pragma unroll
        for (int distance = 1; distance < 32; distance *= 2) {
            const int before = __shfl_up_sync(0xffffffffu, x, distance);
            if (lane() >= distance) x += before;
        }
        return x;
    }
    __device__ __forceinline__ ServedTile tile_of(int batch, int query_block, int head) const {
        const attention::SequenceSize size(args, batch);
        const int first_row = attention::sequence_place(args.query_starts, batch).first;
        const int first_query = query_block * BLOCK_M, end_query = min(first_query + BLOCK_M, size.queries);
        ServedTile tile;
        tile.batch = batch;
        tile.head = head;
        tile.first_query = first_row + first_query;
        tile.end_query = first_row + end_query;
        tile.needed = attention::needed(args, size);
        const int end = attention::visible(args, size, end_query - 1).end;
        const int first = attention::visible(args, size, first_query).first / BLOCK_N * BLOCK_N;
        tile.first_key_of_all = first;
        tile.steps = max((end - first + BLOCK_N - 1) / BLOCK_N, 1);
        tile.set_sequence(attention::position_of(args, size, 0) - first_row - first, size.keys - first);
        return tile;
    }
};

// ---- the copiers, one warp for queries and keys, one for values ----

// The values of a tile that are needed, by their rows. If the end is negative, no more tiles come.
struct NeededRows {
    int first;
    int end;
};
__device__ inline NeededRows* needed_rows(int stage) {
    return reinterpret_cast<NeededRows*>(shared_memory + smem::needed_rows::offset) + stage;
}
__device__ inline unsigned values_copied(int stage) { return barrier((smem::v_copied::offset - FIRST_BARRIER) / 8 + stage); }

// All lanes of a warp call its functions together.
struct Copier {
    const Arguments& args;
    const TensorMap& q_map;
    const TensorMap& k_map;
    const TensorMap& v_map;
    RingPosition q, k, v;

    // Copies the queries of a work tile, and publishes it to the consumers. A tile without steps ends their work.
    __device__ __forceinline__ void publish(const ServedTile& work) {
        const QueryRing ring{};
        ring.wait_free(q);
        if (lane() == 0) {
            *work_of(q.stage) = work;
#pragma unroll
            for (int part = 0; part < Q_COPIES; ++part) {
                const unsigned full = ring.full(q.stage, part);
                if (work.steps > 0) {
                    tma::expect(full, QueryTile::BYTES / Q_COPIES);
                    QueryTile::load(ring.tile(q.stage) + part * CONSUMER_ROWS_BYTES, q_map,
                                    work.first_query + part * 64, work.head, query_entry(args, work), full);
                }
                ptx::mbarrier_arrive(full);
            }
        }
        q.advance<Q_STAGES>();
    }

    // Where a piece of a tile begins. A piece without a needed key is in the batch entry -1, which does not exist: its copy
    // reads nothing and writes zeros, and its entry of the table of pages is not read.
    __device__ __forceinline__ attention::CachePlace place_of(const ServedTile& work, int key) const {
        const bool is_needed = key < work.needed.end && key + PIECE_ROWS > work.needed.first;
        return is_needed ? attention::cache_place(args, work.batch, key) : attention::CachePlace{-1, 0};
    }
    // Copies a tile of keys or values once it is free. Pages: the lanes copy a piece each. They read the table of pages before
    // they wait; everything between the wait and the copy delays the consumers. Lane 0 calls `before` and `after` the copy.
    template <typename Before, typename After>
    __device__ __forceinline__ void copy(const ServedTile& work, int step, const TensorMap& map, unsigned tile, unsigned free,
                                         unsigned parity, unsigned full, const Before& before, const After& after) const {
        constexpr int ROUNDS = (PIECES + 31) / 32;
        const int kv_head = attention::kv_head_of(args, work.head);
        attention::CachePlace places[ROUNDS];
#pragma unroll
        for (int round = 0; round < ROUNDS; ++round) {
            const int piece = 32 * round + lane();
            if (piece < PIECES) places[round] = place_of(work, work.first_key(step) + piece * PIECE_ROWS);
        }
        if (PAGED || lane() == 0) {
            ptx::mbarrier_wait(free, parity ^ 1);
            if (lane() == 0) {
                before();
                tma::arrive_and_expect(full, KeyTile::BYTES);
            }
            if constexpr (PAGED) __syncwarp();
#pragma unroll
            for (int round = 0; round < ROUNDS; ++round) {
                const int piece = 32 * round + lane();
                if (piece < PIECES)
                    KeyTile::load(tile + piece * PIECE_ROWS * tma::ROW_BYTES, map, places[round].position, kv_head,
                                  places[round].entry, full);
            }
            if (lane() == 0) after();
        }
        __syncwarp();
    }
    __device__ __forceinline__ void keys(const ServedTile& work, int step) {
        jitter(work.first_query + step);
        const KeyRing ring{};
        const auto nothing = [] {};
        copy(work, step, k_map, ring.tile(k.stage), ring.free(k.stage), k.parity, ring.full(k.stage), nothing, nothing);
        k.advance<STAGES>();
    }
    __device__ __forceinline__ void values(const ServedTile& work, int step) {
        const ValueRing ring{};
        const int first_key = work.first_key(step), stage = v.stage;
        NeededRows rows = {max(work.needed.first - first_key, 0), min(work.needed.end - first_key, BLOCK_N)};
        // Where no value is needed, all are copied as zeros.
        if (rows.first >= rows.end) rows = {0, BLOCK_N};
        const bool hides = rows.first > 0 || rows.end < BLOCK_N;
        const auto tell = [&] { *needed_rows(stage) = rows; };
        copy(work, step, v_map, ring.tile(stage), ring.free(stage), v.parity, hides ? values_copied(stage) : ring.full(stage),
             [&] {
                 if (hides) tell();
             },
             [&] {
                 if (hides) return;
                 tell();
                 ptx::mbarrier_arrive(values_copied(stage));
             });
        v.advance<STAGES>();
    }
    __device__ __forceinline__ void end_values() {
        ValueRing{}.wait_free(v);
        if (lane() != 0) return;
        *needed_rows(v.stage) = {0, -1};
        ptx::mbarrier_arrive(values_copied(v.stage));
    }

    // Waits for a work tile of the scheduler.
    __device__ __forceinline__ static const ServedTile& found(const RingPosition& at) {
        ptx::mbarrier_wait(tile_found(at.stage), at.parity);
        return *served_tile(at.stage);
    }

    __device__ __forceinline__ static void take(RingPosition& at) {
        __syncwarp();
        if (lane() == 0) ptx::mbarrier_arrive(tile_taken(at.stage));
        at.advance<2>();
    }

    // Queries and keys. One tile of queries is free only after the last scores of the work tile before.
    __device__ __forceinline__ void copy_keys() {
        RingPosition at;
        while (true) {
            const ServedTile& work = found(at);
            const int steps = work.steps;
            if (Q_STAGES == 1 && steps > 0) keys(work, 0);
            publish(work);
            if (steps == 0) return;
#pragma unroll 1
            for (int step = Q_STAGES == 1 ? 1 : 0; step < steps; ++step) keys(work, step);
            take(at);
        }
    }
    __device__ __forceinline__ void copy_values() {
        RingPosition at;
        while (true) {
            const ServedTile& work = found(at);
            const int steps = work.steps;
            if (steps == 0) break;
#pragma unroll 1
            for (int step = 0; step < steps; ++step) values(work, step);
            take(at);
        }
        end_values();
    }
};

// ---- the hider, one warp ----

// Sets values that no query of their sequence needs to zeros.
__device__ inline void hide_values() {
    constexpr int CHUNKS = KeyTile::BOXES * 8;  // of 16 bytes in a row
    const ValueRing ring{};
    RingPosition at;
    while (true) {
        ptx::mbarrier_wait(values_copied(at.stage), at.parity);
        // Only lane 0 reads, because lane 0 releases the tile later.
        NeededRows rows = {0, 0};
        if (lane() == 0) rows = *needed_rows(at.stage);
        const int first = ptx::same_in_warp(rows.first), end = ptx::same_in_warp(rows.end);
        if (end < 0) return;
        const int hidden = first + BLOCK_N - end;
        if (hidden > 0) {
            jitter(at.stage);
#pragma unroll 1
            for (int i = lane(); i < hidden * CHUNKS; i += 32) {
                const int number = i / CHUNKS, chunk = i % CHUNKS, row = number < first ? number : number - first + end;
                ptx::store16_shared(ring.tile(at.stage) + chunk / 8 * KeyTile::BOX_BYTES + row * tma::ROW_BYTES +
                                        chunk % 8 * 16,
                                    0.0f, 0.0f, 0.0f, 0.0f);
            }
            tma::fence_shared_writes();
            __syncwarp();
            if (lane() == 0) ptx::mbarrier_arrive(ring.full(at.stage));
        }
        if (lane() == 0) ptx::mbarrier_arrive(ring.free(at.stage));
        at.advance<STAGES>();
    }
}

// The warps of the producer warpgroup.
__device__ __forceinline__ void produce_served(const Arguments& args, const TensorMap& q_map, const TensorMap& k_map,
                                               const TensorMap& v_map) {
    const int warp = ptx::same_in_warp(warp_of_group());
    if (warp == 0) Copier{args, q_map, k_map, v_map}.copy_keys();
    if (warp == 1) Copier{args, q_map, k_map, v_map}.copy_values();
    if (warp == 2) hide_values();
    if (warp == 3) ServedSchedule{args}.run();
}

}  // namespace hopper
