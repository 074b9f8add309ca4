// The usual path: warp-specialised and software-pipelined. A producer copies, every consumer computes its own 64 rows.
//
//   producer    Q  K0  K1  V0  K2  V1  ...        (with QUERIES parts K0 before Q)
//   consumers   S0 = Q K0^T, weights P0 of S0
//               S1 = Q K1^T and O += P0 V0 on the tensor cores; meanwhile the weights P1 of S1
//               S2 = Q K2^T and O += P1 V1; meanwhile the weights P2 of S2
//               ...
//               S0 of the next work tile and O += Plast Vlast; meanwhile the weights P0; then O / sum is stored
//
// So the weights of a step are computed while the tensor cores multiply those of the previous step, also across two work
// tiles. With PING_PONG the consumers start their products one after the other:
//
//   consumer 0   | products | weights  | products | weights  |
//   consumer 1              | products | weights  | products |
//
// In FP8 the other warps of the producer warpgroup transpose each tile of V between its copy and its use, or a first
// launch has transposed V.
//
// The producer's threads give most of their registers to the consumers (setmaxnreg): 24 to 40 and 112 to 240 per thread.
#pragma once

#include "hopper/rows_of_dtype.cuh"
#include "hopper/scores_again.cuh"
#include "hopper/served.cuh"
#include "hopper/transpose_before.cuh"

namespace hopper {

// FP8: values that wait to be transposed.
using ValueRowRing = Ring<KeyTile, V_ROW_STAGES, SharedRing<KeyTile, smem::v_rows, smem::v_rows_full, smem::v_rows_free>>;
// The ring that the producer fills with V.
template <bool>
struct CopiedValues {
    using Type = ValueRing;
};
template <>
struct CopiedValues<true> {
    using Type = ValueRowRing;
};
using CopiedValueRing = CopiedValues<TRANSPOSES>::Type;

// Whether this stage gets no more rows of V to transpose, because there are none.
__device__ inline int* no_more_rows(int stage) {
    return reinterpret_cast<int*>(shared_memory + smem::no_more_rows::offset) + stage;
}
// FP8: the scales of its head.
__device__ inline HeadScales* scales_of(int stage) {
    return reinterpret_cast<HeadScales*>(shared_memory + smem::head_scales::offset) + stage;
}
static_assert(SPLIT || smem::work::bytes == Q_STAGES * sizeof(WorkTile), "as the manifest lays it out");
static_assert(!PRODUCER_LOADS_SCALES || smem::head_scales::bytes == Q_STAGES * sizeof(HeadScales),
              "as the manifest lays it out");

// Initialises the barriers. At the end every thread sees them.
__device__ inline void init_barriers() {
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            ptx::mbarrier_init(KeyRing{}.full(stage), 1);
            ptx::mbarrier_init(ValueRing{}.full(stage), TRANSPOSES ? Transposer::WARPS : 1);
            ptx::mbarrier_init(KeyRing{}.free(stage), CONSUMERS * 4);  // one arrival per warp
            ptx::mbarrier_init(ValueRing{}.free(stage), CONSUMERS * 4 + (SERVING ? 1 : 0));
            if constexpr (SERVING) ptx::mbarrier_init(values_copied(stage), 1);
        }
        if constexpr (SERVING) init_served_barriers();
        for (int stage = 0; stage < Q_STAGES; ++stage) {
            for (int part = 0; part < Q_COPIES; ++part) ptx::mbarrier_init(QueryRing{}.full(stage, part), 1);
            ptx::mbarrier_init(QueryRing{}.free(stage), CONSUMERS * 4);
        }
        for (int stage = 0; TRANSPOSES && stage < V_ROW_STAGES; ++stage) {
            ptx::mbarrier_init(ValueRowRing{}.full(stage), 1);
            ptx::mbarrier_init(ValueRowRing{}.free(stage), Transposer::WARPS);
            *no_more_rows(stage) = 0;
        }
        tma::fence_barrier_init();
    }
    __syncthreads();
}

// ---- the producer, one thread ----

struct Producer {
    const Arguments& args;
    const TensorMap& q_map;
    const TensorMap& k_map;
    const TensorMap& v_map;
    RingPosition q, k, v;

    // Copies the queries of a work tile.
    __device__ __forceinline__ void queries(const WorkTile& work) {
        const QueryRing ring{};
        ring.wait_free(q);
        if (work.steps == 0) return;
#pragma unroll
        for (int part = 0; part < Q_COPIES; ++part) {
            tma::expect(ring.full(q.stage, part), QueryTile::BYTES / Q_COPIES);
            QueryTile::load(ring.tile(q.stage) + part * CONSUMER_ROWS_BYTES, q_map, work.first_query + part * 64,
                            work.head, work.batch, ring.full(q.stage, part));
        }
    }
    // The scales that the consumers get with the work tile.
    __device__ __forceinline__ HeadScales scales_of_head(const WorkTile& work) const {
        return PRODUCER_LOADS_SCALES ? HeadScales(args, work, work.first_query) : HeadScales();
    }
    // Publishes the work tile whose queries are being copied to the consumers. A tile without steps ends their work.
    __device__ __forceinline__ void publish(const WorkTile& work, const HeadScales& scales) {
        *work_of(q.stage) = work;
        if constexpr (PRODUCER_LOADS_SCALES) *scales_of(q.stage) = scales;
#pragma unroll
        for (int part = 0; part < Q_COPIES; ++part) ptx::mbarrier_arrive(QueryRing{}.full(q.stage, part));
        q.advance<Q_STAGES>();
    }
    __device__ __forceinline__ void queries_of_next(const WorkTile& next) {
        queries(next);
        publish(next, scales_of_head(next));
    }
    __device__ __forceinline__ void keys(const WorkTile& work, int step) {
        if constexpr (!FP8) jitter(work.first_query + step);
        const KeyRing ring{};
        ring.wait_free(k);
        KeyTile::copy(ring.tile(k.stage), k_map, work.first_key(step), attention::kv_head_of(args, work.head), work.batch,
                      ring.full(k.stage));
        k.advance<STAGES>();
    }
    __device__ __forceinline__ void values(const WorkTile& work, int step) {
        const CopiedValueRing ring{};
        const unsigned free = ring.free(v.stage), full = ring.full(v.stage);
        ptx::mbarrier_wait(free, v.parity ^ 1);
        const int kv_head = attention::kv_head_of(args, work.head);
        if constexpr (TRANSPOSED_BEFORE) {
            tma::arrive_and_expect(full, ValueTile::BYTES);
            tma::load_bytes(ring.tile(v.stage), transposed_tile(args, work.batch, kv_head, work.tile_of_keys(args, step)),
                            ValueTile::BYTES, full);
        } else {
            KeyTile::copy(ring.tile(v.stage), v_map, work.first_key(step), kv_head, work.batch, full);
        }
        v.advance<CopiedValueRing::STAGES>();
    }

    // Ends the work of the transposing warps.
    __device__ __forceinline__ void end_values() {
        ValueRowRing{}.wait_free(v);
        *no_more_rows(v.stage) = 1;
        ptx::mbarrier_arrive(ValueRowRing{}.full(v.stage));
    }

    // Values are copied one step after their keys, because they are used one step later; if they must be transposed, then
    // together with their keys.
    __device__ __forceinline__ void run() {
        Schedule schedule(args);
        WorkTile work = schedule.next();
        if (Q_COPIES > 1) keys(work, 0);
        const HeadScales scales = scales_of_head(work);  // they arrive while the first copies are started
        queries(work);
        if (Q_COPIES == 1) keys(work, 0);
        if (TRANSPOSES) values(work, 0);
        publish(work, scales);
        while (true) {
            for (int step = 1; step < work.steps; ++step) {
                keys(work, step);
                values(work, TRANSPOSES ? step : step - 1);
            }
            const WorkTile next = schedule.next();
            if (Q_STAGES > 1) queries_of_next(next);
            if (next.steps > 0) keys(next, 0);
            if (!TRANSPOSES) values(work, work.steps - 1);
            if (TRANSPOSES && next.steps > 0) values(next, 0);
            // One tile of queries is free only after the last scores of the work tile.
            if (Q_STAGES == 1) queries_of_next(next);
            if (next.steps == 0) break;
            work = next;
        }
        if (TRANSPOSES) end_values();
    }
};

// ---- the transposing warps ----

// The transposing warps follow the order of the rings: for a schedule of their own they have too few registers.
__device__ inline void transpose_values(int warp) {
    const Transposer transposer;
    const ValueRowRing rows{};
    const ValueRing values{};
    RingPosition from, to;
    while (true) {
        rows.wait_full(from);
        // Only lane 0 reads, because lane 0 releases the rows later.
        if (ptx::same_in_warp(lane() == 0 ? *no_more_rows(from.stage) : 0)) return;
        values.wait_free(to);
        jitter(to.stage);
        transposer.transpose(rows.tile(from.stage), values.tile(to.stage), warp);
        if (lane() == 0) {
            ptx::mbarrier_arrive(values.full(to.stage));
            ptx::mbarrier_arrive(rows.free(from.stage));
        }
        from.advance<V_ROW_STAGES>();
        to.advance<STAGES>();
    }
}

// ---- the consumers, a warpgroup each ----

// PING_PONG: consumers start their products in turns, so that one computes weights while the tensor cores work for another.
// Every consumer takes one turn per step, also in steps that it skips.
constexpr int TURN_BARRIER = 1;  // of the first consumer; those of the others follow. 0 is __syncthreads

__device__ inline void take_turn(int group) {
    if constexpr (PING_PONG) ptx::named_barrier_sync<256>(TURN_BARRIER + group);
}
__device__ inline void pass_turn(int group) {
    if constexpr (PING_PONG) ptx::named_barrier_arrive<256>(TURN_BARRIER + (group + 1) % CONSUMERS);
}

// A warpgroup with its rows and its positions in the rings.
struct Consumer {
    const Arguments& args;
    const int group;
    WorkTile work;
    int own_end;     // KEY_ORDER forward: no row of this consumer sees a key of this step of the work tile or of later ones
    int mask_limit;  // steps before it have masked keys; with KEY_ORDER forward, the others have
    int window_limit;   // serving: steps from it on have masked keys, too
    HeadScales scales;  // of its head, if the producer loads them
    Rows rows;
    float value_scale;  // of the head whose output `rows` has; with BLOCK_SCALES, of the last step's values
    float score_scale;  // BLOCK_SCALES: products to exponents of 2, without the scale of the keys
    RingPosition q, k, v;

    __device__ __forceinline__ Consumer(const Arguments& args_, int group_)
        : args(args_), group(group_), rows(args.softmax_scale * LOG2_E) {
        // The compiler must not know that the stage is always 0. Otherwise it computes addresses of queries before the loops,
        // and no longer sees that all lanes have the same addresses (see `is_idle`).
        if constexpr (Q_STAGES == 1) q.stage = ptx::same_in_warp(threadIdx.x / 1024);
    }

    __device__ __forceinline__ static int first_row(const WorkTile& of, int group) {
        return of.first_query + 64 * group;
    }
    // Whether this consumer has no rows in the work tile. The vote tells the compiler that all lanes agree. Without it, the
    // compiler does not treat addresses of tiles as uniform, and every product copies its descriptors to uniform registers.
    __device__ __forceinline__ bool is_idle() const {
        const int end = SERVING ? work.end_query : min(work.end_query, args.seq_q);
        return __all_sync(0xffffffffu, first_row(work, group) >= end);
    }
    // The keys that a query of the work tile sees; for serving, counted from the first key of the last step.
    __device__ __forceinline__ attention::KeyRange seen_by(int query) const {
        if constexpr (SERVING) return attention::visible_from(args, work.keys, query + work.diagonal);
        return {0, attention::visible_keys(args, query)};
    }
    // The first step with keys that a row of this consumer sees, or the last one.
    __device__ __forceinline__ int first_step() const {
        if constexpr (FORWARD) return 0;
        const int seen = seen_by(first_row(work, group) + 63).end;
        return ptx::same_in_warp(min(work.steps - 1, max(0, work.steps - (seen + BLOCK_N - 1) / BLOCK_N)));
    }
    __device__ __forceinline__ int end_step() const { return FORWARD ? own_end : work.steps; }
    __device__ __forceinline__ bool has_masked_keys(int step) const {
        if (SERVING && step >= window_limit) return true;
        return FORWARD ? step >= mask_limit : step < mask_limit;
    }
    __device__ __forceinline__ void skip_keys(int count) {
        for (int step = 0; step < count; ++step) {
            take_turn(group);
            KeyRing{}.wait_full(k);
            pass_turn(group);
            KeyRing{}.release(k);
            k.advance<STAGES>();
        }
    }
    __device__ __forceinline__ void skip_values(int count) {
        for (int step = 0; step < count; ++step) {
            ValueRing{}.wait_full(v);
            ValueRing{}.release(v);
            v.advance<STAGES>();
        }
    }

    __device__ __forceinline__ void mask(int step) {
        const int first_column = work.tile(step) * BLOCK_N + lane() % 4 * 2;
        const int query = first_row(work, group) + own_row();
        const attention::KeyRange upper = seen_by(query), lower = seen_by(query + 8);
        if constexpr (SERVING) {
            rows.mask_outside({upper.first - first_column, upper.end - first_column},
                              {lower.first - first_column, lower.end - first_column});
        } else {
            const int visible[2] = {upper.end - first_column, lower.end - first_column};
            rows.mask(visible);
        }
    }
    __device__ __forceinline__ void cap() {
        if constexpr (CAPPED) rows.cap(__fdividef(args.softmax_scale, args.softcap));
    }

    __device__ __forceinline__ void start_scores() {
        KeyRing{}.wait_full(k);
        wgmma::fence();
        rows.start_scores(rows.scores, QueryRing{}.tile(q.stage) + group * CONSUMER_ROWS_BYTES,
                          KeyRing{}.tile(k.stage));
    }
    __device__ __forceinline__ void start_output(bool replace = false) {
        ValueRing{}.wait_full(v);
        wgmma::fence();  // the compiler would add it: the wait is a loop
        rows.start_output(ValueRing{}.tile(v.stage), replace);
    }
    // After the last scores of a work tile its queries are free, too.
    __device__ __forceinline__ void scores_done(int step) {
        wgmma::keep_below(rows.scores);
        KeyRing{}.release(k);
        k.advance<STAGES>();
        QueryRing{}.release(q, step == end_step() - 1);
    }
    __device__ __forceinline__ void output_done() {
        wgmma::groups_wait<0>();
        wgmma::keep_below(rows.output);
        ValueRing{}.release(v);
        v.advance<STAGES>();
    }

    __device__ __forceinline__ HeadScales head_scales() const {
        return PRODUCER_LOADS_SCALES ? scales : HeadScales(args, work, first_row(work, group));
    }
    // Sets the scales for the first scores of a work tile.
    __device__ __forceinline__ void first_scales(const HeadScales& head, const StepScales& step) {
        score_scale = head.score(args);
        rows.scale = BLOCK_SCALES ? score_scale * step.key : score_scale;
    }
    // BLOCK_SCALES: sets the scales for further scores.
    __device__ __forceinline__ void next_scales(const StepScales& step) {
        if constexpr (BLOCK_SCALES) {
            rows.scale = score_scale * step.key;
            rows.change_value_scale(value_scale, step.value);
            value_scale = step.value;
        }
    }
    // Ends the softmax of a work tile.
    __device__ __forceinline__ Rows::Statistics end_softmax() {
        if constexpr (BLOCK_SCALES) {
            rows.change_value_scale(value_scale, 1.0f);
            value_scale = 1.0f;
        }
        return rows.restart();
    }

    // Writes the rows of a finished work tile.
    __device__ __forceinline__ void store(const WorkTile& of, const Rows::Statistics& statistics, float value_scale) {
        const OutputRows to = {query_entry(args, of), of.head, first_row(of, group), end_of_queries(args, of)};
        const Rows::Factors factors = Rows::finish(args, to, statistics, value_scale);
        rows.store_output(args, to, statistics, factors);
    }

    // The first step after which no product is in flight.
    __device__ __forceinline__ void begin(int step) {
        const StepScales step_scales(args, work, step);
        skip_keys(step);
        take_turn(group);
        start_scores();
        pass_turn(group);
        wgmma::groups_wait<0>();
        scores_done(step);
        cap();
        if (has_masked_keys(step)) mask(step);
        const HeadScales head = head_scales();
        first_scales(head, step_scales);
        value_scale = BLOCK_SCALES ? step_scales.value : head.value;
        rows.update_running_max();
        rows.exponentiate();
        rows.round_weights();
        rows.pack_weights();
        skip_values(step);
    }

    // RUNNING_MAX lazy: whether the range of a step's weights is checked before the wait for the output. Then the weights must
    // be computed before it, too, and little is left to do between the wait and the next product. The compiler would move
    // all of that below the wait. But it does not move an event for profilers (`__prof_trigger`), and the check decides
    // whether there is one. At head_dim 64 a step takes 1 to 2% longer this way.
    static constexpr bool CHECKS_BEFORE_WAIT = HEAD_DIM > 64 && !ROUND_LATE;

    // One step: the scores of `step` and the output of the step before it on the tensor cores, meanwhile the weights of
    // `step`. FP8: PROMOTE: the output so far is promoted while the tensor cores compute the scores. Returns false if
    // `fit_weights` must end the step.
    template <bool MASKED, bool PROMOTE = false>
    __device__ __forceinline__ bool next_step(int step) {
        const StepScales step_scales(args, work, step);
        Rows::PromotionFactors promotion_factors;
        if constexpr (PROMOTE) promotion_factors = rows.prepare_promotion(value_scale);
        take_turn(group);
        start_scores();
        if constexpr (PROMOTE) rows.promote_output(promotion_factors);
        start_output(PROMOTE);
        pass_turn(group);
        jitter(work.first_query + step);
        wgmma::groups_wait<1>();
        scores_done(step);
        cap();
        if constexpr (MASKED) mask(step);
        next_scales(step_scales);
        constexpr bool LAZY = LAZY_MAX && !MASKED;
        if constexpr (LAZY) {
            rows.exponentiate_step();
        } else {
            rows.template update_running_max<MASKED ? Rows::Keys::masked : Rows::Keys::all_visible>();
            rows.exponentiate();
        }
        constexpr bool LATE = LAZY && ROUND_LATE;
        if constexpr (!LATE) rows.template round_weights<LAZY>();
        jitter(work.first_query - step);
        bool misfit = false;
        if constexpr (LAZY && CHECKS_BEFORE_WAIT) {
            misfit = rows.any_out_of_range();
            if (misfit) __prof_trigger(0);
        }
        output_done();
        if constexpr (LATE) rows.round_late();
        if constexpr (LAZY) {
            if constexpr (!CHECKS_BEFORE_WAIT) misfit = rows.any_out_of_range();
            if (misfit) return false;
            rows.add_step_sum();
        }
        if constexpr (!LATE) rows.template pack_weights<LAZY>();
        if constexpr (!LAZY) rows.rescale_output();
        return true;
    }
    // RUNNING_MAX lazy: ends a step in which weights of the warp's rows are outside of the range of their type.
    __device__ __forceinline__ void fit_weights(int step) {
        if (rows.any_step_sum_above(SUM_WITHOUT_SCORES)) {
            scores_again(rows.scores, args, work, first_row(work, group),
                         SERVING ? work.first_key(step) : work.tile(step) * BLOCK_N);
            cap();
            rows.update_running_max_again();
            rows.exponentiate_step();
        }
        rows.fit_weights();
        rows.add_step_sum();
        rows.round_weights();
        rows.pack_weights();
    }

    // The last product of `before` and the first step, `step`, of `work`. Between them are values that no row of this consumer
    // needs.
    template <bool MASKED>
    __device__ __forceinline__ void next_tile(const WorkTile& before, int step, int skipped) {
        const HeadScales head = head_scales();
        const StepScales step_scales(args, work, step);
        skip_keys(step);
        take_turn(group);
        start_scores();
        start_output();
        pass_turn(group);
        jitter(work.first_query + step);
        wgmma::groups_wait<1>();
        scores_done(step);
        const Rows::Statistics statistics = end_softmax();
        first_scales(head, step_scales);
        cap();
        if constexpr (MASKED) mask(step);
        rows.template update_running_max<MASKED ? Rows::Keys::masked : Rows::Keys::all_visible>();
        rows.exponentiate();
        jitter(work.first_query - step);
        output_done();
        skip_values(skipped);
        store(before, statistics, value_scale);
        value_scale = BLOCK_SCALES ? step_scales.value : head.value;
        rows.clear_output();
        rows.round_weights();
        rows.pack_weights();
    }

    // Waits for a work tile and its queries. Returns whether there is one.
    __device__ __forceinline__ bool receive() {
        QueryRing{}.wait_full(q, group);
        // Only lane 0 reads, because lane 0 releases the tile later. The broadcasts tell the compiler that the numbers
        // are uniform (see `is_idle`).
        WorkTile here;
        if (lane() == 0) here = *work_of(q.stage);
        work.batch = ptx::same_in_warp(here.batch);
        work.head = ptx::same_in_warp(here.head);
        work.first_query = ptx::same_in_warp(here.first_query);
        work.end_query = ptx::same_in_warp(here.end_query);
        // Where no row sees a key, the mask hides the keys of any step.
        if constexpr (BLOCK_SCALES || SERVING) work.first_key_of_all = ptx::same_in_warp(here.first_key_of_all);
        work.steps = ptx::same_in_warp(here.steps);
        if constexpr (SERVING)
            work.set_sequence(ptx::same_in_warp(here.diagonal), ptx::same_in_warp(here.keys));
        const int first = first_row(work, group), seen_by_all = max(seen_by(first).end, 0) / BLOCK_N;
        mask_limit = ptx::same_in_warp(FORWARD ? seen_by_all : work.steps - seen_by_all);
        if constexpr (SERVING) {
            const int hidden_tiles = (max(seen_by(first + 63).first, 0) + BLOCK_N - 1) / BLOCK_N;
            window_limit = ptx::same_in_warp(work.steps - hidden_tiles);
        }
        if constexpr (FORWARD) {
            const int seen = attention::visible_keys(args, first + 63);
            own_end = ptx::same_in_warp(min(work.steps, max(1, (seen + BLOCK_N - 1) / BLOCK_N)));
        }
        if constexpr (PRODUCER_LOADS_SCALES) {
            HeadScales of_head;
            if (lane() == 0) of_head = *scales_of(q.stage);
            scales.query = __shfl_sync(0xffffffffu, of_head.query, 0);
            scales.key = __shfl_sync(0xffffffffu, of_head.key, 0);
            scales.value = __shfl_sync(0xffffffffu, of_head.value, 0);
        }
        return work.steps > 0;
    }
    __device__ __forceinline__ bool receive_next() {
        q.advance<Q_STAGES>();
        return receive();
    }

    // Releases the tiles of a work tile in which this consumer has no rows.
    __device__ __forceinline__ void skip_tile() {
        for (int step = 0; step < work.steps; ++step) {
            skip_keys(1);
            skip_values(1);
        }
        QueryRing{}.release(q);
    }

    // The steps from `step` to before `end`, without a mask. Returns false if `fit_weights` must end step number `step`.
    __device__ __forceinline__ bool unmasked_steps_until(int& step, int end) {
#pragma unroll 1
        for (; step < end; ++step) {
            if (!next_step<false>(step)) return false;
        }
        return true;
    }
    // The steps from `step` on. Steps that promote have code of their own, so that the loop over the others is short. After
    // `fit_weights` a warp continues at the same place, because all warps of a warpgroup must execute the same products.
    __device__ __forceinline__ void unmasked_steps(int& step, int end) {
        constexpr bool PROMOTES = FP8 && PROMOTION_INTERVAL > 0;
        constexpr int PERIOD = PROMOTES ? PROMOTION_INTERVAL : 1;
        while (step < end) {
            bool ended;
            if (PROMOTES && step % PERIOD == 0) {
                ended = next_step<false, PROMOTES>(step);
                if (ended) ++step;
            } else {
                const int next_sum = PROMOTES ? (step / PERIOD + 1) * PERIOD : end;
                ended = unmasked_steps_until(step, min(end, next_sum));
            }
            if (ended) continue;
            fit_weights(step);
            ++step;
        }
    }

    __device__ __forceinline__ void masked_steps(int& step, int end) {
#pragma unroll 1
        for (; step < end; ++step) next_step<true>(step);
    }

    // Computes work tiles until none is left or the warpgroup has no rows in the next one. Returns whether one is left.
    __device__ __forceinline__ bool stream() {
        int step = first_step();
        begin(step);
        WorkTile before = work;
        int later = 0;  // steps of `before` after the consumer's own
        bool more;
        while (true) {
            ++step;
            if (!FORWARD) masked_steps(step, mask_limit);
            unmasked_steps(step, FORWARD ? mask_limit : SERVING ? window_limit : work.steps);
            if (FORWARD) masked_steps(step, own_end);
            if (SERVING) masked_steps(step, work.steps);
            before = work;
            if (FORWARD) {
                later = work.steps - own_end;
                skip_keys(later);
            }
            more = __all_sync(0xffffffffu, receive_next());
            if (!more || is_idle()) break;
            step = first_step();
            if (has_masked_keys(step)) {
                next_tile<true>(before, step, FORWARD ? later : step);
            } else {
                next_tile<false>(before, step, FORWARD ? later : step);
            }
        }
        start_output();
        output_done();
        skip_values(later);
        const Rows::Statistics statistics = end_softmax();
        store(before, statistics, value_scale);
        rows.clear_output();
        return more;
    }

    __device__ __forceinline__ void run() {
        bool more = receive();
        if (group == CONSUMERS - 1) pass_turn(group);
        while (more) {
            if (is_idle()) {
                skip_tile();
                more = receive_next();
            } else {
                more = stream();
            }
        }
    }
};

__device__ __forceinline__ void stream(const Arguments& args, const TensorMap& q_map, const TensorMap& k_map,
                                       const TensorMap& v_map) {
    if (threadIdx.x == 0) {
        tma::prefetch(q_map);
        tma::prefetch(k_map);
        tma::prefetch(v_map);
    }
    init_barriers();
    const int group = ptx::same_in_warp(threadIdx.x / 128);
    if (group == CONSUMERS) {
        wgmma::lower_registers<PRODUCER_REGISTERS>();
        if constexpr (SERVING) {
            produce_served(args, q_map, k_map, v_map);
        } else {
            if (threadIdx.x == CONSUMERS * 128) Producer{args, q_map, k_map, v_map}.run();
        }
        if (TRANSPOSES && warp_of_group() >= 4 - Transposer::WARPS)
            transpose_values(ptx::same_in_warp(warp_of_group() - (4 - Transposer::WARPS)));
    } else {
        wgmma::raise_registers<CONSUMER_REGISTERS>();
        Consumer(args, group).run();
    }
}

}  // namespace hopper
