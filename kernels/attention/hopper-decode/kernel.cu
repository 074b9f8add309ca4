// Attention for few queries and many keys (decode), for Hopper: O = softmax(scale * Q K^T + mask) V.
//
// The time of such a launch is that of reading K and V. So the keys are divided among all multiprocessors (`work.cuh`), and
// a block has many bytes of copies under way: one thread copies tiles of K and V into rings in shared memory (TMA). One
// warpgroup multiplies them (wgmma) with up to 64 rows: the queries of all heads that read these keys, packed. Partial
// results are combined in a fixed order (`combine.cuh`).
//
//   producer    K0  K1 V0  K2 V1  K3 V2 ...                            waits for free tiles
//   consumers   Q K0^T | weights 0 | V0, Q K1^T | weights 1 | V1, Q K2^T | ...
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

// ---- the producer, one thread ----

struct Producer {
    const Arguments& args;
    const TensorMap& k_map;
    const TensorMap& v_map;
    const Work work;
    Share keys, values;  // what is left to copy
    RingPosition k, v;

    __device__ __forceinline__ Producer(const Arguments& args_, const TensorMap& k_map_, const TensorMap& v_map_)
        : args(args_), k_map(k_map_), v_map(v_map_), work(args_, gridDim.x), keys(work), values(keys) {}

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
    __device__ __forceinline__ void copy(Share& share, RingPosition& at, const TensorMap& map, unsigned tile, unsigned full,
                                         unsigned free) const {
        ptx::mbarrier_wait(free, at.parity ^ 1);
        const Unit unit(args, work, share.unit);
        KeyTile::copy(tile, map, work.first_key + share.tile * BLOCK_N, unit.kv_head, unit.batch, full);
        share.advance(work, 1);
        at.advance<STAGES>();
    }
    __device__ __forceinline__ void copy_keys() {
        if (keys.tiles > 0) copy(keys, k, k_map, key_tile(k.stage), keys_full(k.stage), keys_free(k.stage));
    }
    __device__ __forceinline__ void copy_values() {
        copy(values, v, v_map, value_tile(v.stage), values_full(v.stage), values_free(v.stage));
    }
    // Copies tiles until the rings are full; this never waits. Keys are one tile ahead, as the consumers need them.
    __device__ __forceinline__ void fill_rings() {
        copy_keys();
#pragma unroll 1
        for (int i = 1; i < STAGES && values.tiles > 0; ++i) {
            copy_keys();
            copy_values();
        }
    }
    __device__ __forceinline__ void copy_rest() {
#pragma unroll 1
        while (values.tiles > 0) {
            jitter(values.tiles);
            copy_keys();
            copy_values();
        }
    }
};

// ---- the consumers, one warpgroup ----

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
        : args(args_), work(args_, gridDim.x), share(work), rows(args_.softmax_scale * LOG2_E) {}

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
    // Hides keys beyond those that a row sees, in tiles that have any.
    __device__ __forceinline__ void mask(const Unit& of, int tile) {
        const int first_key = work.first_key + tile * BLOCK_N;
        if (first_key + BLOCK_N <= attention::visible_keys(args, 0)) return;
        int visible[ROWS_OF_LANE];
#pragma unroll
        for (int i = 0; i < ROWS_OF_LANE; ++i) {
            const PackedRow row(work, of.kv_head, of.first_row + own_row(i));
            visible[i] = attention::visible_keys(args, row.query) - first_key - lane() % 4 * 2;
        }
        rows.mask(visible);
    }
    // One step: the weights of a tile of keys from its scores, which are under way, and the products with its values. With
    // MORE the scores of the next tile are started, too.
    template <bool MORE>
    __device__ __forceinline__ void step(const Unit& of, int tile) {
        wgmma::groups_wait<0>();
        wgmma::keep_below(rows.scores);
        wgmma::keep_below(rows.output);
        release_keys();
        jitter(tile);
        mask(of, tile);
        rows.update_running_max();
        rows.exponentiate();
        ptx::mbarrier_wait(values_full(v.stage), v.parity);
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
    // Computes the next tiles of the present unit; at least one.
    __device__ __forceinline__ void compute(const Unit& of, int tiles) {
        start_scores();
        const int last = share.tile + tiles - 1;
#pragma unroll 1
        for (int tile = share.tile; tile < last; ++tile) step<true>(of, tile);
        step<false>(of, last);
        rows.complete_sums();
    }

    __device__ __forceinline__ void run() {
        if constexpr (EQUAL_SHARES) {
            for (int which = 0; share.tiles > 0; which = 1) run_unit(which);
        } else {
            const Unit of = unit();
            if (share.tiles > 0) compute(of, share.tiles);
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
        const int tiles = share.tiles_of_unit(work);
        compute(of, tiles);
        if (tiles == work.tiles) {
            store_whole(args, work, of, rows);
        } else {
            partial_in_workspace(args, work, blockIdx.x, which).store(rows, work.rows - of.first_row);
        }
        share.advance(work, tiles);
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
        if (lane() == 0) producer.fill_rings();
        __syncwarp();
        __syncthreads();
        if (lane() == 0) producer.copy_rest();
    } else {
        Consumer consumer(args);
        if (consumer.share.tiles > 0) load_queries(args, consumer.work, consumer.unit());
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
