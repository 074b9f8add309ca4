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

#include "hopper-decode/combine.cuh"

namespace decode {

// ---- the producer, one thread; for pages one warp ----

struct Producer {
    const Arguments& args;
    const TensorMap& k_map;
    const TensorMap& v_map;
    const Work work;
    Share keys, values;  // what is left to copy
    RingPosition k, v;

    __device__ __forceinline__ Producer(const Arguments& args_, const TensorMap& k_map_, const TensorMap& v_map_)
        : args(args_), k_map(k_map_), v_map(v_map_), work(args_, gridDim.x), keys(args_, work), values(keys) {}

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
        constexpr int ROUNDS = (PIECES + 31) / 32;
        attention::CachePlace places[ROUNDS];
#pragma unroll
        for (int round = 0; round < ROUNDS; ++round) places[round] = place_of_piece(share, unit.batch, 32 * round + lane());
        ptx::mbarrier_wait(free, at.parity ^ 1);
        if (lane() == 0) tma::arrive_and_expect(full, KeyTile::BYTES);
        __syncwarp();
#pragma unroll
        for (int round = 0; round < ROUNDS; ++round) {
            const int piece = 32 * round + lane();
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
            KeyTile::copy(tile, map, share.first_key(), unit.kv_head, unit.batch, full);
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

// Copies the packed rows of a unit to shared memory; zeros where there are none.
__device__ __forceinline__ void load_queries(const Arguments& args, const Work& work, const Unit& unit) {
    constexpr int CHUNKS = HEAD_DIM / 8;  // of 16 bytes in a row
    const unsigned tile = in_shared(smem::q_tile::offset);
#pragma unroll 4
    for (int i = threadIdx.x; i < 64 * CHUNKS; i += CONSUMERS) {
        const int place = i / CHUNKS, chunk = i % CHUNKS;
        const int row = ROWS == 64 ? place : place / 16 * 8 + place % 8;
        const bool exists = (ROWS == 64 || place % 16 < 8) && unit.first_row + row < work.rows;
        uint4 words = make_uint4(0, 0, 0, 0);
        if (exists) {
            const PackedRow packed(work, unit.kv_head, unit.first_row + row);
            const Element* const q = attention::head_start(static_cast<const Element*>(args.q), args.q_strides, unit.batch,
                                                           packed.head) +
                                     static_cast<unsigned long long>(packed.query) * args.q_strides.sequence;
            words = *reinterpret_cast<const uint4*>(q + 8 * chunk);
        }
        const unsigned to = tile + chunk / 8 * QueryTile::BOX_BYTES + tma::chunk_offset(place, chunk % 8);
        ptx::store16_shared(to, __uint_as_float(words.x), __uint_as_float(words.y), __uint_as_float(words.z),
                            __uint_as_float(words.w));
    }
    tma::fence_shared_writes();
}

struct Consumer {
    const Arguments& args;
    const Work work;
    Share share;
    Rows rows;
    RingPosition k, v;

    __device__ __forceinline__ explicit Consumer(const Arguments& args_)
        : args(args_), work(args_, gridDim.x), share(args_, work),
          rows((is_capped(args_) ? args_.softcap : args_.softmax_scale) * LOG2_E) {}

    __device__ __forceinline__ static bool is_capped(const Arguments& args) { return SERVING && args.softcap > 0.0f; }

    __device__ __forceinline__ Unit unit() const { return Unit(args, work, share.unit); }

    __device__ __forceinline__ void start_scores() {
        ptx::mbarrier_wait(keys_full(k.stage), k.parity);
        rows.start_scores(key_tile(k.stage));
    }
    __device__ __forceinline__ void release_keys() {
        if (lane() == 0) ptx::mbarrier_arrive(keys_free(k.stage));
        k.advance<STAGES>();
    }
    __device__ __forceinline__ void release_values() {
        if (lane() == 0) ptx::mbarrier_arrive(values_free(v.stage));
        v.advance<STAGES>();
    }
    // Hides the keys of the present tile that a row does not see, if there are any.
    __device__ __forceinline__ void mask(const Unit& of) {
        const int first_key = share.first_key(), first_column = first_key + lane() % 4 * 2;
        if constexpr (SERVING) {
            if (is_capped(args)) rows.cap(args.softmax_scale / args.softcap);
            const int length = share.tiles.length;
            // The first query has the lowest bounds, the last one the highest.
            const bool is_before_end = first_key + BLOCK_N <= attention::visible(args, length, 0).end;
            if (is_before_end && first_key >= attention::visible(args, length, args.seq_q - 1).first) return;
            int first[ROWS_OF_LANE], visible[ROWS_OF_LANE];
#pragma unroll
            for (int i = 0; i < ROWS_OF_LANE; ++i) {
                const PackedRow row(work, of.kv_head, of.first_row + own_row(i));
                const attention::KeyRange seen = attention::visible(args, length, row.query);
                first[i] = seen.first - first_column;
                visible[i] = seen.end - first_column;
            }
            rows.mask_before(first);
            rows.mask(visible);
        } else {
            if (first_key + BLOCK_N <= attention::visible_keys(args, 0)) return;
            int visible[ROWS_OF_LANE];
#pragma unroll
            for (int i = 0; i < ROWS_OF_LANE; ++i) {
                const PackedRow row(work, of.kv_head, of.first_row + own_row(i));
                visible[i] = attention::visible_keys(args, row.query) - first_column;
            }
            rows.mask(visible);
        }
    }
    // Waits for the values of the present tile, and hides those that no query sees.
    __device__ __forceinline__ void await_values() {
        ptx::mbarrier_wait(values_full(v.stage), v.parity);
        if constexpr (SERVING) {
            const int first_key = share.first_key();
            const attention::KeyRange& needed = share.tiles.needed;
            if (first_key < needed.first || first_key + BLOCK_N > needed.end)
                hide_values(value_tile(v.stage), needed, first_key);
        }
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
        if constexpr (MORE) ptx::mbarrier_wait(keys_full(k.stage), k.parity);
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
            load_queries(args, work, of);
            consumers_sync();
            rows.begin();
        }
        const bool has_first = share.tile == 0;
        compute(of);
        if (has_first && share.tile + 1 == share.tiles.count()) {
            store_whole(args, work, of, rows);
        } else {
            partial_in_workspace(args, work, blockIdx.x, which).store(rows, work.rows - of.first_row);
        }
        share.advance(args, work);
    }

    // Clusters: the rest, when all tiles of this block are computed.
    __device__ __forceinline__ void run_cluster(const Unit& of) {
        if constexpr (CLUSTER == 1) {
            store_whole(args, work, of, rows);
        } else {
            const int existing = min(work.rows - of.first_row, ROWS);
            consumers_sync();  // every warp has read the keys, whose memory the partial result overwrites
            partial_in_shared().store(rows, existing);
            cluster::sync();
            combine_cluster(args, work, of, existing);
            cluster::sync();  // every block has read
        }
    }
};

}  // namespace decode

extern "C" __global__ void __launch_bounds__(decode::THREADS, knob::RESIDENT)
attention_decode(const __grid_constant__ attention::Arguments args, const __grid_constant__ tma::TensorMap k_map,
                 const __grid_constant__ tma::TensorMap v_map) {
    using namespace decode;
    if (threadIdx.x >= CONSUMERS) {
        if (lane() == 0) Producer::init_barriers();
        __syncwarp();
        // The copies start before the block's barrier.
        Producer producer(args, k_map, v_map);
        if (Producer::takes_part()) producer.fill_rings();
        __syncwarp();
        __syncthreads();
        if (Producer::takes_part()) producer.copy_rest();
    } else {
        Consumer consumer(args);
        if (consumer.share.left > 0) load_queries(args, consumer.work, consumer.unit());
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
