// The path for short launches: the warpgroups of a block have the same 64 query rows and split the keys.
//
// A launch of a few microseconds spends most of them waiting: for its instructions and parameters, which no cache has,
// for the first copies, and for one step after another. So this path has little code. A producer warp copies; with 512
// keys and two warpgroups of two stages it never waits. In FP8 three more warps transpose the tiles of V.
//
//   producer     Q  K0 K1  K2 K3  V0 V1  V2 V3  ...
//   warpgroup g  of the steps g, g + WARPGROUPS, ...:
//                S = Q K^T, then the weights of S, beside them O += P V for the weights that are there
//                at the end the warpgroups add their O, each for half of the rows, divide and store
#pragma once

#include "hopper/rows_of_dtype.cuh"
#include "hopper/work.cuh"

namespace hopper {

// A ring of tiles of one warpgroup: K, V, or in FP8 the rows of V before they are transposed.
struct Ring {
    const unsigned tiles;     // in shared memory, the first of STAGES
    const unsigned bytes;     // of a tile
    const unsigned barriers;  // "full" of each stage, then "free" of each

    __device__ __forceinline__ unsigned tile(int stage) const { return tiles + stage * bytes; }
    __device__ __forceinline__ unsigned full(int stage) const { return barriers + stage * 8; }
    __device__ __forceinline__ unsigned free(int stage) const { return barriers + (STAGES + stage) * 8; }

    __device__ __forceinline__ static Ring keys(int group) {
        return {k_tile(group * STAGES), KV_BYTES, barrier(group * 4 * STAGES)};
    }
    __device__ __forceinline__ static Ring values(int group) {
        return {v_tile(group * STAGES), V_BYTES, barrier(group * 4 * STAGES + 2 * STAGES)};
    }
    __device__ __forceinline__ static Ring value_rows(int group) {
        return {v_rows(group * STAGES), KV_BYTES, barrier(CONSUMERS * 4 * STAGES + 1 + group * 2 * STAGES)};
    }
    __device__ __forceinline__ static Ring copied_values(int group) { return FP8 ? value_rows(group) : values(group); }
    __device__ __forceinline__ void wait(Place at) const { ptx::mbarrier_wait(full(at.stage), at.parity); }
    __device__ __forceinline__ void release(Place at) const {
        if (lane() == 0) ptx::mbarrier_arrive(free(at.stage));
    }
};

// The barrier of the queries, for all warpgroups.
__device__ inline unsigned queries_full() { return barrier(CONSUMERS * 4 * STAGES); }

// Under a causal mask the longest tiles come first. The number of tiles comes from the arguments, because gridDim is in
// another line of the constant cache.
__device__ inline WorkTile split_tile(const Arguments& args) {
    const int query_block = (args.seq_q + BLOCK_M - 1) / BLOCK_M - 1 - blockIdx.x;
    return WorkTile(args, query_block * BLOCK_M, args.seq_q, blockIdx.y, blockIdx.z);
}

// ---- the producer, one thread ----

struct SplitProducer {
    const TensorMap& q_map;
    const TensorMap& k_map;
    const TensorMap& v_map;
    const WorkTile work;
    const int kv_head;

    __device__ __forceinline__ SplitProducer(const Arguments& args, const TensorMap& q_map_, const TensorMap& k_map_,
                                             const TensorMap& v_map_)
        : q_map(q_map_), k_map(k_map_), v_map(v_map_), work(split_tile(args)),
          kv_head(attention::kv_head_of(args, work.head)) {}

    // The barriers of the first copies, and then all others.
    __device__ __forceinline__ static void init_first_barriers() {
        ptx::mbarrier_init(queries_full(), 1);
#pragma unroll
        for (int group = 0; group < CONSUMERS; ++group) ptx::mbarrier_init(Ring::keys(group).full(0), 1);
        tma::fence_barrier_init();
    }
    __device__ __forceinline__ static void init_other_barriers() {
#pragma unroll
        for (int group = 0; group < CONSUMERS; ++group) {
#pragma unroll
            for (int stage = 0; stage < STAGES; ++stage) {
                if (stage > 0) ptx::mbarrier_init(Ring::keys(group).full(stage), 1);
                ptx::mbarrier_init(Ring::values(group).full(stage), FP8 ? Transposer::WARPS : 1);
                if constexpr (FP8) {
                    ptx::mbarrier_init(Ring::value_rows(group).full(stage), 1);
                    ptx::mbarrier_init(Ring::value_rows(group).free(stage), Transposer::WARPS);
                }
                ptx::mbarrier_init(Ring::keys(group).free(stage), 4);  // one arrival per warp
                ptx::mbarrier_init(Ring::values(group).free(stage), 4);
            }
        }
        tma::fence_barrier_init();
    }
    __device__ __forceinline__ void queries() const {
        tma::arrive_and_expect(queries_full(), Q_BYTES);
#pragma unroll
        for (int box = 0; box < BOXES; ++box)
            tma::load(q_tile(0) + box * Q_BOX_BYTES, q_map, box * BOX_COLUMNS, work.first_query, work.head, work.batch,
                      queries_full());
    }
    __device__ __forceinline__ void copy(const Ring& ring, const TensorMap& map, int stage, int step) const {
        tma::arrive_and_expect(ring.full(stage), KV_BYTES);
#pragma unroll
        for (int box = 0; box < BOXES; ++box)
            tma::load(ring.tile(stage) + box * KV_BOX_BYTES, map, box * BOX_COLUMNS, work.first_key(step), kv_head,
                      work.batch, ring.full(stage));
    }
    // The keys of every warpgroup's first step.
    __device__ __forceinline__ void copy_first_keys() const {
#pragma unroll
        for (int group = 0; group < CONSUMERS; ++group) {
            if (group < work.steps) copy(Ring::keys(group), k_map, 0, group);
        }
    }
    // What else fits into the rings.
    __device__ __forceinline__ void fill_rings() const {
        const int fitting = min(CONSUMERS * STAGES, work.steps);
#pragma unroll 1
        for (int step = CONSUMERS; step < fitting; ++step)
            copy(Ring::keys(step % CONSUMERS), k_map, step / CONSUMERS, step);
#pragma unroll 1
        for (int step = 0; step < fitting; ++step)
            copy(Ring::copied_values(step % CONSUMERS), v_map, step / CONSUMERS, step);
    }
    // The tiles that do not fit into the rings at once.
    __device__ __forceinline__ void copy_rest() const {
#pragma unroll 1
        for (int step = CONSUMERS * STAGES; step < work.steps; ++step) {
            jitter(work.first_query + step);
            const int group = step % CONSUMERS, t = step / CONSUMERS, stage = t % STAGES;
            const unsigned parity = t / STAGES % 2 ^ 1;
            ptx::mbarrier_wait(Ring::keys(group).free(stage), parity);
            copy(Ring::keys(group), k_map, stage, step);
            ptx::mbarrier_wait(Ring::copied_values(group).free(stage), parity);
            copy(Ring::copied_values(group), v_map, stage, step);
        }
    }
};

// ---- FP8: the transposing warps ----

__device__ inline void transpose_split_values(const Arguments& args, int warp) {
    const Transposer transposer;
    const WorkTile work = split_tile(args);
#pragma unroll 1
    for (int step = 0; step < work.steps; ++step) {
        const int group = step % CONSUMERS, t = step / CONSUMERS, stage = t % STAGES;
        const unsigned parity = t / STAGES % 2;
        const Ring rows = Ring::value_rows(group), values = Ring::values(group);
        ptx::mbarrier_wait(rows.full(stage), parity);
        ptx::mbarrier_wait(values.free(stage), parity ^ 1);
        jitter(work.first_query + 2 * step);
        transposer.transpose(rows.tile(stage), values.tile(stage), warp);
        if (lane() == 0) {
            ptx::mbarrier_arrive(values.full(stage));
            ptx::mbarrier_arrive(rows.free(stage));
        }
    }
}

// ---- the consumers, a warpgroup each ----

template <int GROUPS>  // = CONSUMERS = 2; a parameter, so that candidates without SPLIT_KV do not compile it
struct SplitGroup {
    const Arguments& args;
    const int group;
    const WorkTile work;
    const int own_steps;
    const Ring k, v;

    __device__ __forceinline__ SplitGroup(const Arguments& args_, int group_)
        : args(args_), group(group_), work(split_tile(args)),
          own_steps((work.steps - group + GROUPS - 1) / GROUPS), k(Ring::keys(group)), v(Ring::values(group)) {}

    // Where the warp's rows of the output are. It is known before the loop, while the warp waits for the first copies.
    __device__ __forceinline__ OutputPlace output_place() const {
        const int first_row = work.first_query + warp_of_group() * 16;
        OutputPlace place{attention::head_start(static_cast<Output*>(args.o), args.o_strides, work.batch, work.head) +
                              static_cast<unsigned long long>(first_row) * args.o_strides.sequence,
                          args.o_strides.sequence, args.seq_q - first_row};
        asm volatile("" : "+l"(place.first), "+r"(place.stride), "+r"(place.rows));
        return place;
    }

    __device__ __forceinline__ void hide(Rows& rows, int step) const {
        if (step >= work.masked) return;
        const int first_column = work.first_key(step) + lane() % 4 * 2;
        const int query = work.first_query + own_row();
        const int visible[2] = {attention::visible_keys(args, query) - first_column,
                                attention::visible_keys(args, query + 8) - first_column};
        rows.hide(visible);
    }

    // The weights are computed at one place for all steps: instructions that are fetched once.
    __device__ __forceinline__ void compute(Rows& rows, float score_scale) const {
        if (own_steps == 0) return;
        Place at;
        float value_scale = 1.0f;
        ptx::mbarrier_wait(queries_full(), 0);
        start_scores(rows, at);
        wgmma::groups_wait<0>();
        wgmma::keep_below(rows.scores);
        for (int t = 0;; ++t) {
            const int step = t * GROUPS + group;
            const StepScales scales(args, work, step);
            k.release(at);
            jitter(work.first_query + step);
            hide(rows, step);
            if constexpr (BLOCK_SCALES) {
                rows.scale = score_scale * scales.key;
                rows.change_value_scale(value_scale, scales.value);
                value_scale = scales.value;
            }
            rows.choose_origins();
            if (t > 0) rows.rescale_output();
            v.wait(at);
            rows.weigh_and_start_output(v.tile(at.stage));
            if (t == own_steps - 1) break;
            const Place before = at;
            at.advance<STAGES>();
            start_scores(rows, at);
            wgmma::groups_wait<0>();
            wgmma::keep_below(rows.scores);
            wgmma::keep_below(rows.output);
            v.release(before);
            jitter(work.first_query - step);
        }
        wgmma::groups_wait<0>();
        wgmma::keep_below(rows.output);
        if constexpr (BLOCK_SCALES) rows.change_value_scale(value_scale, 1.0f);
    }
    __device__ __forceinline__ void start_scores(Rows& rows, Place at) const {
        k.wait(at);
        wgmma::fence();
        rows.start_scores(rows.scores, q_tile(0), k.tile(at.stage));
    }

    // ---- the end: of the two rows of a lane, each warpgroup adds up and stores the one with its own number ----

    static constexpr int LEFT = smem::left_rows::dim2;  // float4 that one lane leaves for another
    static_assert(GROUPS == 2 && LEFT == HEAD_DIM / 16 + 1, "one of two rows of the output, then origins and sums");

    // What a lane leaves for the same lane of warpgroup `to`, which has the same rows and columns: LEFT times 16 bytes,
    // 512 bytes apart.
    __device__ __forceinline__ static unsigned left(int to) {
        return in_shared(smem::left_rows::offset) + ((to * 4 + warp_of_group()) * LEFT * 32 + lane()) * 16;
    }

    template <int GROUP>
    __device__ __forceinline__ void finish_as(Rows& rows, const OutputPlace& place, float value_scale) const {
        constexpr int OTHER = 1 - GROUP;
        Rows::Statistics own = rows.restart();
#pragma unroll
        for (int row = 0; row < 2; ++row) own.sum[row] = group_sum<4>(own.sum[row]);
#pragma unroll
        for (int i = 0; i < HEAD_DIM / 16; ++i) {
            const float* o = rows.output + 8 * i + 2 * OTHER;
            ptx::store16_shared(left(OTHER) + i * 512, o[0], o[1], o[4], o[5]);
        }
        ptx::store16_shared(left(OTHER) + (LEFT - 1) * 512, own.origin[0], own.origin[1], own.sum[0], own.sum[1]);
        ptx::named_barrier_sync<GROUPS * 32>(1 + warp_of_group());  // a warp waits only for the one with the same rows
        float theirs[4];
        ptx::load16_shared(theirs, left(GROUP) + (LEFT - 1) * 512);
        // The factor of each warpgroup's row: it brings them to a common origin and divides them by the total sum.
        float own_factor = 0.0f, their_factor = 0.0f;
        Rows::Statistics all;
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            const float highest = fmaxf(own.origin[row], theirs[row]);
            const float own_part = ptx::exp2_approx(own.origin[row] - highest);
            const float their_part = ptx::exp2_approx(theirs[row] - highest);
            all.origin[row] = highest;
            all.sum[row] = fmaf(own_part, own.sum[row], their_part * theirs[2 + row]);
            if (row != GROUP) continue;
            const float normal = all.sum[row] > 0.0f ? ptx::reciprocal_approx(all.sum[row]) * value_scale : 0.0f;
            own_factor = own_part * normal;
            their_factor = their_part * normal;
        }
#pragma unroll
        for (int i = 0; i < HEAD_DIM / 16; ++i) {
            float* o = rows.output + 8 * i + 2 * GROUP;
            ptx::load16_shared(theirs, left(GROUP) + i * 512);
            o[0] = fmaf(theirs[0], their_factor, o[0] * own_factor);
            o[1] = fmaf(theirs[1], their_factor, o[1] * own_factor);
            o[4] = fmaf(theirs[2], their_factor, o[4] * own_factor);
            o[5] = fmaf(theirs[3], their_factor, o[5] * own_factor);
        }
        rows.template store_row<GROUP>(place);
        if (GROUP == 0) Rows::store_statistics(args, work.batch, work.head, work.first_query, all);
    }

    __device__ __forceinline__ void finish(Rows& rows, const OutputPlace& place, float value_scale) const {
        if (group == 0) finish_as<0>(rows, place, value_scale);
        if (group == 1) finish_as<1>(rows, place, value_scale);
    }
};

template <int GROUPS>
__device__ __forceinline__ void split(const Arguments& args, const TensorMap& q_map, const TensorMap& k_map,
                                      const TensorMap& v_map) {
    // Parameters and maps are in no cache: different warps wait for different lines at the same time.
    if (threadIdx.x == 0) {
        tma::prefetch(k_map);
        tma::prefetch(q_map);
        tma::prefetch(v_map);
    }
    const int group = ptx::same_in_warp(threadIdx.x / 128);
    if (group == GROUPS && FP8 && warp_of_group() > 0) {
        __syncthreads();  // every thread sees the barriers
        transpose_split_values(args, ptx::same_in_warp(warp_of_group() - 1));
    } else if (group == GROUPS) {
        const SplitProducer producer(args, q_map, k_map, v_map);
        if (lane() == 0) {
            producer.init_first_barriers();
            producer.queries();
            producer.copy_first_keys();
            producer.init_other_barriers();
        }
        __syncthreads();
        if (lane() == 0) {
            producer.fill_rings();
            producer.copy_rest();
        }
    } else {
        const SplitGroup<GROUPS> consumer(args, group);
        const HeadScales scales(args, consumer.work, consumer.work.first_query);
        const float score_scale = scales.score(args);
        Rows rows(args, score_scale);
        __syncthreads();  // every thread sees the barriers
        const OutputPlace output = consumer.output_place();
        consumer.compute(rows, score_scale);
        consumer.finish(rows, output, scales.value);
    }
}

}  // namespace hopper
