// Attention for few queries and many keys (decode), for Hopper: O = softmax(scale * Q K^T + mask) V.
//
// The time of such a launch is that of reading K and V. So the keys are divided among all multiprocessors (`work.cuh`), and
// a block has many bytes of copies under way: one thread copies tiles of K and V into rings in shared memory (TMA). A cache
// in pages is copied by the lanes of that warp: a piece of a page has the largest power of two of rows that divides the
// page size, at most a tile. One warpgroup multiplies them (wgmma) with up to 64 rows: the queries of all heads that read
// these keys, packed. Partial results are combined in a fixed order (`combine.cuh`).
//
//   producer    K0  K1 V0  K2 V1  K3 V2 ...                            waits for free tiles
//   consumers   Q K0^T | weights 0 | V0, Q K1^T | weights 1 | V1, Q K2^T | ...
//
// A sequence may have fewer keys than the cache has room for, and its rows may see only a window of them. The keys of its
// first and last tile that no row sees have the score -inf, and their values are set to zeros, because memory beyond a
// sequence may hold NaN.
//
//   keys        0 . . . [window . . . length) . . . room of the cache
//   tiles             |--zeros--x-|-----------|-x--zeros--|
//
// Shared memory, bytes (columns are padded to whole boxes of 64; a multiprocessor has 227 KB for its blocks):
//
//   queries         64 * head_dim * 2
//   keys, values    2 * STAGES * BLOCK_N * head_dim * 2
//
//   head_dim 128 (d128): 16 + 96 KB, so that two blocks fit.
//
// NOTES.md has the design and the reasons for it.

#include "hopper-decode/warps.cuh"

namespace decode {

// ---- the producer, one thread; for pages one warp or four ----

struct Producer {
    const Arguments& args;
    const TensorMap& k_map;
    const TensorMap& v_map;
    const Work work;
    Share keys, values;  // what is left to copy
    RingPosition k, v;

    __device__ __forceinline__ Producer(const Arguments& args_, const TensorMap& k_map_, const TensorMap& v_map_)
        : args(args_), k_map(k_map_), v_map(v_map_), work(args_, gridDim.x), keys(args_, work), values(keys) {}

    __device__ __forceinline__ static int own_warp() { return PRODUCER_WARPS == 1 ? 0 : warp() - CONSUMERS / 32; }
    // The lanes of the producer's warps share the pieces of a tile: first one for each warp, then a second one.
    __device__ __forceinline__ static int own_piece(int round) {
        return (32 * round + lane()) * PRODUCER_WARPS + own_warp();
    }
    // Whether this lane copies.
    __device__ __forceinline__ static bool takes_part() { return PAGED || lane() == 0; }

    __device__ __forceinline__ static void init_barriers() {
#pragma unroll
        for (int stage = 0; stage < STAGES; ++stage) {
            ptx::mbarrier_init(keys_full(stage), 1);
            ptx::mbarrier_init(values_full(stage), 1);
            ptx::mbarrier_init(keys_free(stage), 4);  // one arrival per warp
            ptx::mbarrier_init(values_free(stage), 4);
        }
        tma::fence_barrier_init();
    }

    // Where a piece of a tile begins in the cache. A piece without a key that any row sees is on page -1, which does not
    // exist: its copy reads nothing and writes zeros, and its entry of the table is not read.
    __device__ __forceinline__ attention::CachePlace place_of_piece(const Share& share, int batch, int piece) const {
        const int key = share.first_key() + piece * PIECE_ROWS;
        const bool is_needed = key < share.tiles.needed.end && key + PIECE_ROWS > share.tiles.needed.first;
        return is_needed ? attention::cache_place(args, batch, key) : attention::CachePlace{-1, 0};
    }
    // Pages: the lanes copy a piece each. They read the table before they wait for the tile.
    __device__ __forceinline__ void copy_pages(const Share& share, const Unit& unit, const RingPosition& at,
                                               const TensorMap& map, unsigned tile, unsigned full, unsigned free) const {
        constexpr int ROUNDS = (PIECES + 32 * PRODUCER_WARPS - 1) / (32 * PRODUCER_WARPS);
        attention::CachePlace places[ROUNDS];
#pragma unroll
        for (int round = 0; round < ROUNDS; ++round) places[round] = place_of_piece(share, unit.batch, own_piece(round));
        ptx::mbarrier_wait(free, at.parity ^ 1);
        if (own_warp() == 0 && lane() == 0) tma::arrive_and_expect(full, KeyTile::BYTES);
        __syncwarp();
#pragma unroll
        for (int round = 0; round < ROUNDS; ++round) {
            const int piece = own_piece(round);
            if (piece < PIECES)
                KeyTile::load(tile + piece * PIECE_ROWS * tma::ROW_BYTES, map, places[round].position, unit.kv_head,
                              places[round].entry, full);
        }
    }
    __device__ __forceinline__ void copy(Share& share, RingPosition& at, const TensorMap& map, unsigned tile, unsigned full,
                                         unsigned free) const {
        const Unit unit(args, work, share.unit);
        if constexpr (PAGED) {
            copy_pages(share, unit, at, map, tile, full, free);
        } else {
            ptx::mbarrier_wait(free, at.parity ^ 1);
            attention::TokenPlace place = {unit.batch, 0};
            if constexpr (SERVING) place = attention::sequence_place(args.key_starts, unit.batch);
            KeyTile::copy(tile, map, place.first + share.first_key(), unit.kv_head, place.entry, full);
        }
        share.advance(args, work);
        at.advance<STAGES>();
    }
    __device__ __forceinline__ void copy_keys() {
        if (keys.left > 0) copy(keys, k, k_map, key_tile(k.stage), keys_full(k.stage), keys_free(k.stage));
    }
    __device__ __forceinline__ void copy_values() {
        copy(values, v, v_map, value_tile(v.stage), values_full(v.stage), values_free(v.stage));
    }
    // Copies tiles until the rings are full; this never waits. Keys are one tile ahead, as the consumers need them.
    __device__ __forceinline__ void fill_rings() {
        copy_keys();
#pragma unroll 1
        for (int i = 1; i < STAGES && values.left > 0; ++i) {
            copy_keys();
            copy_values();
        }
    }
    __device__ __forceinline__ void copy_rest() {
#pragma unroll 1
        while (values.left > 0) {
            jitter(values.left);
            copy_keys();
            copy_values();
        }
    }
};

// ---- the consumers, one warpgroup ----

// Sets the rows of a tile of values to zeros whose keys no query sees. They may hold NaN, and 0 times NaN is NaN.
__device__ __forceinline__ void hide_values(unsigned tile, const attention::KeyRange& needed, int first_key) {
    constexpr int CHUNKS = KeyTile::BOXES * 8;  // of 16 bytes in a row
#pragma unroll 1  // unrolled, it needs more registers than there are
    for (int i = threadIdx.x; i < BLOCK_N * CHUNKS; i += CONSUMERS) {
        const int row = i / CHUNKS, chunk = i % CHUNKS, key = first_key + row;
        if (key >= needed.first && key < needed.end) continue;
        ptx::store16_shared(tile + chunk / 8 * KeyTile::BOX_BYTES + row * tma::ROW_BYTES + chunk % 8 * 16, 0.0f, 0.0f, 0.0f,
                            0.0f);
    }
    tma::fence_shared_writes();
    consumers_sync();
}

// Copies the packed rows of a unit to shared memory; zeros where there are none. The head has `existing` rows.
__device__ __forceinline__ void load_queries(const Arguments& args, const Work& work, const Unit& unit, int existing) {
    constexpr int CHUNKS = HEAD_DIM / 8;  // of 16 bytes in a row
    const unsigned tile = in_shared(smem::q_tile::offset);
#pragma unroll 4
    for (int i = threadIdx.x; i < 64 * CHUNKS; i += CONSUMERS) {
        const int place = i / CHUNKS, chunk = i % CHUNKS;
        const int row = ROWS == 64 ? place : place / 16 * 8 + place % 8;
        const bool exists = (ROWS == 64 || place % 16 < 8) && unit.first_row + row < existing;
        uint4 words = make_uint4(0, 0, 0, 0);
        if (exists) {
            const PackedRow packed(work, unit.kv_head, unit.first_row + row);
            const Element* const q =
                query_row(args, static_cast<const Element*>(args.q), args.q_strides, unit.batch, packed);
            words = *reinterpret_cast<const uint4*>(q + 8 * chunk);
        }
        const unsigned to = tile + chunk / 8 * QueryTile::BOX_BYTES + tma::chunk_offset(place, chunk % 8);
        ptx::store16_shared(to, __uint_as_float(words.x), __uint_as_float(words.y), __uint_as_float(words.z),
                            __uint_as_float(words.w));
    }
    tma::fence_shared_writes();
}

// A consumer's share of the work and its positions in the rings.
struct ConsumerState {
    const Arguments& args;
    const Work work;
    Share share;
    RingPosition k, v;

    __device__ __forceinline__ explicit ConsumerState(const Arguments& args_)
        : args(args_), work(args_, gridDim.x), share(args_, work) {}

    __device__ __forceinline__ bool is_capped() const { return SERVING && args.softcap > 0.0f; }
    // From scores, or from what a cap has made of them, to exponents of 2.
    __device__ __forceinline__ float scale() const { return (is_capped() ? args.softcap : args.softmax_scale) * LOG2_E; }
    __device__ __forceinline__ Unit unit() const { return Unit(args, work, share.unit); }

    __device__ __forceinline__ void await_keys() const { ptx::mbarrier_wait(keys_full(k.stage), k.parity); }
    __device__ __forceinline__ void release_keys() {
        if (lane() == 0) ptx::mbarrier_arrive(keys_free(k.stage));
        k.advance<STAGES>();
    }
    __device__ __forceinline__ void release_values() {
        if (lane() == 0) ptx::mbarrier_arrive(values_free(v.stage));
        v.advance<STAGES>();
    }
    // Whether some row does not see some key of the present tile.
    __device__ __forceinline__ bool is_masked() const {
        const int first_key = share.first_key(), end = first_key + BLOCK_N;
        if constexpr (!SERVING) return end > attention::visible_keys(args, 0);
        // The first query has the lowest bounds, the last one the highest.
        const attention::SequenceSize& size = share.tiles.size;
        return end > attention::visible(args, size, 0).end ||
               first_key < attention::visible(args, size, size.queries - 1).first;
    }
    // Whether the present tile has keys that no row sees. Their memory may hold anything.
    __device__ __forceinline__ bool has_hidden_values() const {
        const int first_key = share.first_key();
        const attention::KeyRange& needed = share.tiles.needed;
        return SERVING && (first_key < needed.first || first_key + BLOCK_N > needed.end);
    }
    // The keys that a packed row sees.
    __device__ __forceinline__ attention::KeyRange seen_by(const Unit& of, int row_of_block) const {
        const PackedRow row(work, of.kv_head, of.first_row + row_of_block);
        if constexpr (SERVING) return attention::visible(args, share.tiles.size, row.query);
        return {0, attention::visible_keys(args, row.query)};
    }
    // Packed rows of the present unit's head, and those of this block that exist.
    __device__ __forceinline__ int rows_of_head() const { return work.rows_of(share.tiles); }
    __device__ __forceinline__ int existing(const Unit& of) const { return min(rows_of_head() - of.first_row, ROWS); }
    // Whether this block has all tiles of the present unit, of which it began with tile `first` and has the last.
    __device__ __forceinline__ bool has_whole_unit(int first) const {
        return first == 0 && share.tile + 1 == share.tiles.count();
    }
};

// ROWS 32 and 64: a warpgroup computes the steps together.
struct GroupConsumer : ConsumerState {
    Rows rows;

    __device__ __forceinline__ explicit GroupConsumer(const Arguments& args_) : ConsumerState(args_), rows(scale()) {}

    // Before the block's first barrier.
    __device__ __forceinline__ void load_first_queries() {
        if (share.left > 0) load_queries(args, work, unit(), rows_of_head());
    }
    __device__ __forceinline__ void start_scores() {
        await_keys();
        rows.start_scores(key_tile(k.stage));
    }
    // Hides the keys of the present tile that a row does not see, if there are any.
    __device__ __forceinline__ void mask(const Unit& of) {
        if (is_capped()) rows.cap(args.softmax_scale / args.softcap);
        if (!is_masked()) return;
        const int first_column = share.first_key() + lane() % 4 * 2;
        int first[ROWS_OF_LANE], visible[ROWS_OF_LANE];
#pragma unroll
        for (int i = 0; i < ROWS_OF_LANE; ++i) {
            const attention::KeyRange seen = seen_by(of, own_row(i));
            first[i] = seen.first - first_column;
            visible[i] = seen.end - first_column;
        }
        if constexpr (SERVING) rows.mask_before(first);
        rows.mask(visible);
    }
    // Waits for the values of the present tile, and hides those that no query sees.
    __device__ __forceinline__ void await_values() {
        ptx::mbarrier_wait(values_full(v.stage), v.parity);
        if (has_hidden_values()) hide_values(value_tile(v.stage), share.tiles.needed, share.first_key());
    }
    // One step: the weights of a tile of keys from its scores, which are under way, and the products with its values. With
    // MORE the scores of the next tile are started, too.
    template <bool MORE>
    __device__ __forceinline__ void step(const Unit& of) {
        wgmma::groups_wait<0>();
        wgmma::keep_below(rows.scores);
        wgmma::keep_below(rows.output);
        release_keys();
        jitter(share.tile);
        mask(of);
        rows.update_running_max();
        rows.exponentiate();
        await_values();
        if constexpr (MORE) await_keys();
        rows.start_output(value_tile(v.stage));
        if constexpr (MORE) {
            rows.start_scores(key_tile(k.stage));
            wgmma::groups_wait<1>();
        } else {
            wgmma::groups_wait<0>();
        }
        wgmma::keep_below(rows.output);
        release_values();
    }
    // Computes the next tiles of the present unit, at least one. The last one remains the present tile.
    __device__ __forceinline__ void compute(const Unit& of) {
        start_scores();
#pragma unroll 1
        for (; share.left_of_unit() > 1; --share.left, ++share.tile) step<true>(of);
        step<false>(of);
        rows.complete_sums();
    }

    __device__ __forceinline__ void run() {
        if constexpr (EQUAL_SHARES) {
            for (int which = 0; share.left > 0; which = 1) run_unit(which);
        } else {
            const Unit of = unit();
            if (share.left > 0) compute(of);
            run_cluster(of);
        }
    }

    // Equal shares: one unit, or a part of it. `which`: 0 for the block's first unit, whose queries are in shared memory.
    __device__ __forceinline__ void run_unit(int which) {
        const Unit of = unit();
        if (which > 0) {
            consumers_sync();  // every warp has read the queries before
            load_queries(args, work, of, rows_of_head());
            consumers_sync();
            rows.begin();
        }
        const int first = share.tile;
        compute(of);
        if (has_whole_unit(first)) {
            store_whole(args, work, of, rows, rows_of_head());
        } else {
            partial_in_workspace(args, work, blockIdx.x, which).store(rows, existing(of));
        }
        share.advance(args, work);
    }

    // Clusters: the rest, when all tiles of this block are computed.
    __device__ __forceinline__ void run_cluster(const Unit& of) {
        if constexpr (CLUSTER == 1) {
            store_whole(args, work, of, rows, rows_of_head());
        } else {
            const int rows_here = existing(of);
            consumers_sync();  // every warp has read the keys, whose memory the partial result overwrites
            partial_in_shared().store(rows, rows_here);
            cluster::sync();
            combine_cluster(args, work, of, rows_here);
            cluster::sync();  // every block has read
        }
    }
};

// ROWS 8: every warp computes its own keys of each step.
struct WarpConsumer : ConsumerState {
    WarpRows rows;

    __device__ __forceinline__ explicit WarpConsumer(const Arguments& args_) : ConsumerState(args_), rows(scale()) {}

    __device__ __forceinline__ void load_first_queries() {
        if (share.left > 0) rows.load_queries(args, work, unit(), rows_of_head());
    }
    __device__ __forceinline__ void mask(const Unit& of) {
        if (is_capped()) rows.cap(args.softmax_scale / args.softcap);
        if (!is_masked()) return;
        const attention::KeyRange seen[2] = {seen_by(of, WarpRows::own_row(0)), seen_by(of, WarpRows::own_row(1))};
        rows.mask(seen, share.first_key());
    }
    __device__ __forceinline__ void await_values() const { ptx::mbarrier_wait(values_full(v.stage), v.parity); }
    // One step: the weights of a tile of keys from its scores, and the products with its values. With MORE the scores of the
    // next tile are computed between them, without a branch: the compiler mixes the instructions.
    template <bool MORE>
    __device__ __forceinline__ void step(const Unit& of) {
        jitter(share.tile);
        rows.take_next_scores();
        mask(of);
        rows.update_running_max();
        const unsigned values = value_tile(v.stage);
        if (has_hidden_values()) {
            if constexpr (MORE) compute_next_scores();
            rows.exponentiate();
            await_values();
            rows.add_values<true>(values, share.tiles.needed, share.first_key());
        } else {
            if constexpr (MORE) await_keys();
            await_values();
            if constexpr (MORE) rows.compute_next_scores(key_tile(k.stage));
            rows.exponentiate();
            rows.add_values<false>(values, share.tiles.needed, share.first_key());
            if constexpr (MORE) {
                __syncwarp();  // every lane has read the tile
                release_keys();
            }
        }
        __syncwarp();
        release_values();
    }
    __device__ __forceinline__ void compute_next_scores() {
        await_keys();
        rows.compute_next_scores(key_tile(k.stage));
        __syncwarp();
        release_keys();
    }
    // Computes the next tiles of the present unit, at least one. The last one remains the present tile.
    __device__ __forceinline__ void compute(const Unit& of) {
        compute_next_scores();
#pragma unroll 1
        for (; share.left_of_unit() > 1; --share.left, ++share.tile) step<true>(of);
        step<false>(of);
    }

    __device__ __forceinline__ void run() {
        if constexpr (EQUAL_SHARES) {
            for (int which = 0; share.left > 0; which = 1) run_unit(which);
        } else {
            const Unit of = unit();
            if (share.left > 0) compute(of);
            run_cluster(of);
        }
    }
    __device__ __forceinline__ void run_unit(int which) {
        const Unit of = unit();
        if (which > 0) {
            rows.load_queries(args, work, of, rows_of_head());
            rows.begin();
        }
        const int rows_here = existing(of), first = share.tile;
        compute(of);
        if (which > 0) consumers_sync();  // every thread has read the results of the unit before
        rows.leave();
        const bool whole = has_whole_unit(first);
        const Partial partial = partial_in_workspace(args, work, blockIdx.x, which);
        each_merged_quad(rows_here, [&](int row, int quad, const Combined& combined) {
            if (whole) {
                combined.store(args, of.batch, PackedRow(work, of.kv_head, of.first_row + row), 4 * quad);
            } else {
                store_partial(partial, row, quad, combined);
            }
        });
        share.advance(args, work);
    }
    __device__ __forceinline__ void run_cluster(const Unit& of) {
        const int rows_here = existing(of);
        consumers_sync();  // every warp has read the keys, whose memory the results of the warps overwrite
        rows.leave();
        if constexpr (CLUSTER > 1) cluster::wait();  // every block has started
        each_merged_quad(rows_here, [&](int row, int quad, const Combined& combined) {
            if constexpr (CLUSTER > 1) {
                Inbox::send(rows_here, row, quad, combined);
            } else {
                combined.store(args, of.batch, PackedRow(work, of.kv_head, of.first_row + row), 4 * quad);
            }
        });
        if constexpr (CLUSTER > 1) {
            cluster::sync();
            Inbox::combine(args, work, of, rows_here);
        }
    }
};

template <bool>
struct ConsumerOf {
    using Type = GroupConsumer;
};
template <>
struct ConsumerOf<true> {
    using Type = WarpConsumer;
};

}  // namespace decode

extern "C" __global__ void __launch_bounds__(decode::THREADS, knob::RESIDENT)
attention_decode(const __grid_constant__ attention::Arguments args, const __grid_constant__ tma::TensorMap k_map,
                 const __grid_constant__ tma::TensorMap v_map) {
    using namespace decode;
    constexpr bool SENDS = KEYS_BY_WARP && CLUSTER > 1;
    if constexpr (SENDS) cluster::arrive_relaxed();
    if constexpr (EQUAL_SHARES) {
        ptx::await_launch_before();
        ptx::start_next_launch();
    }
    if (threadIdx.x >= CONSUMERS) {
        if (threadIdx.x == CONSUMERS) Producer::init_barriers();
        if constexpr (PRODUCER_WARPS > 1) {
            ptx::named_barrier_sync<2, 32 * PRODUCER_WARPS>();
        } else {
            __syncwarp();
        }
        // The copies start before the block's barrier.
        Producer producer(args, k_map, v_map);
        if (Producer::takes_part()) producer.fill_rings();
        __syncwarp();
        __syncthreads();
        if (Producer::takes_part()) producer.copy_rest();
        __syncwarp();
        if constexpr (SENDS) cluster::wait();
    } else {
        ConsumerOf<KEYS_BY_WARP>::Type consumer(args);
        consumer.load_first_queries();
        __syncthreads();  // every thread sees the barriers and the queries
        consumer.run();
    }
}

// Only for equal shares.
extern "C" __global__ void __launch_bounds__(decode::COMBINING_THREADS)
combine_shares(const __grid_constant__ attention::Arguments args, const __grid_constant__ tma::TensorMap,
               const __grid_constant__ tma::TensorMap) {
    if constexpr (decode::EQUAL_SHARES) decode::combine_shares(args);
}
