// The usual path: a producer warpgroup copies, the others compute 64 rows each, from work tile to work tile.
//
// A tile in shared memory is "full" when all its bytes have arrived, and "free" again when every computing warp has
// released it.
//
//   producer    Q  K0  K1  V0  K2  V1  ...        (with QUERIES parts K0 before Q)
//   consumers   S0 = Q K0^T, weights of S0
//               S1 = Q K1^T and O += P0 V0 on the tensor cores; meanwhile the weights of S1
//               ...
//               S0 of the next work tile and O += Plast Vlast; meanwhile the weights of S0; O / sum is stored
//
// A step's weights are computed while the tensor cores work on the step before, also across the border of two work
// tiles. In FP8 the other warps of the producer warpgroup transpose each tile of V between its copy and its use, or a
// launch before this one has transposed V.
#pragma once

#include "hopper/rows_of_dtype.cuh"
#include "hopper/scores_again.cuh"
#include "hopper/transpose_before.cuh"

namespace hopper {

// The work tile whose queries are in this stage.
__device__ inline WorkTile* work_of(int stage) {
    return reinterpret_cast<WorkTile*>(shared_memory + smem::work::offset) + stage;
}
// Whether this stage gets no more rows of V to transpose, because there are none.
__device__ inline int* no_more_rows(int stage) {
    return reinterpret_cast<int*>(shared_memory + smem::no_more_rows::offset) + stage;
}
// FP8: the scales of its head.
__device__ inline HeadScales* scales_of(int stage) {
    return reinterpret_cast<HeadScales*>(shared_memory + smem::head_scales::offset) + stage;
}
static_assert(SPLIT || smem::work::bytes == Q_STAGES * sizeof(WorkTile), "as the manifest lays it out");
static_assert(!HANDS_SCALES || smem::head_scales::bytes == Q_STAGES * sizeof(HeadScales), "as the manifest lays it out");

// Every thread sees the barriers when it has met the others.
__device__ inline void init_barriers() {
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            ptx::mbarrier_init(k_full(stage), 1);
            ptx::mbarrier_init(v_full(stage), TRANSPOSES ? Transposer::WARPS : 1);
            ptx::mbarrier_init(k_free(stage), CONSUMERS * 4);  // one arrival per warp
            ptx::mbarrier_init(v_free(stage), CONSUMERS * 4);
        }
        for (int stage = 0; stage < Q_STAGES; ++stage) {
            for (int group = 0; group < Q_COPIES; ++group) ptx::mbarrier_init(q_full(stage, group), 1);
            ptx::mbarrier_init(q_free(stage), CONSUMERS * 4);
        }
        for (int stage = 0; TRANSPOSES && stage < V_ROW_STAGES; ++stage) {
            ptx::mbarrier_init(v_rows_full(stage), 1);
            ptx::mbarrier_init(v_rows_free(stage), Transposer::WARPS);
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
    Place q, k, v;

    __device__ __forceinline__ static void copy_tile(unsigned tile, const TensorMap& map, int row, int head, int batch,
                                                     unsigned full) {
        tma::arrive_and_expect(full, KV_BYTES);
#pragma unroll
        for (int box = 0; box < BOXES; ++box)
            tma::load(tile + box * KV_BOX_BYTES, map, box * BOX_COLUMNS, row, head, batch, full);
    }
    // Copies the queries of a work tile.
    __device__ __forceinline__ void queries(const WorkTile& work) {
        ptx::mbarrier_wait(q_free(q.stage), q.parity ^ 1);
        if (work.steps == 0) return;
#pragma unroll
        for (int part = 0; part < Q_COPIES; ++part) {
            tma::expect(q_full(q.stage, part), Q_BYTES / Q_COPIES);
#pragma unroll
            for (int box = 0; box < BOXES; ++box) {
                tma::load(q_tile(q.stage) + box * Q_BOX_BYTES + part * WARPGROUP_ROW_BYTES, q_map, box * BOX_COLUMNS,
                          work.first_query + part * 64, work.head, work.batch, q_full(q.stage, part));
            }
        }
    }
    // The scales that the consumers get with the work tile.
    __device__ __forceinline__ HeadScales scales_of_head(const WorkTile& work) const {
        return HANDS_SCALES ? HeadScales(args, work, work.first_query) : HeadScales();
    }
    // Tells the consumers about the work tile whose queries are being copied. A tile without steps ends their work.
    __device__ __forceinline__ void announce(const WorkTile& work, const HeadScales& scales) {
        *work_of(q.stage) = work;
        if constexpr (HANDS_SCALES) *scales_of(q.stage) = scales;
#pragma unroll
        for (int part = 0; part < Q_COPIES; ++part) ptx::mbarrier_arrive(q_full(q.stage, part));
        q.advance<Q_STAGES>();
    }
    __device__ __forceinline__ void queries_of_next(const WorkTile& next) {
        queries(next);
        announce(next, scales_of_head(next));
    }
    __device__ __forceinline__ void keys(const WorkTile& work, int step) {
        if constexpr (!FP8) jitter(work.first_query + step);
        ptx::mbarrier_wait(k_free(k.stage), k.parity ^ 1);
        copy_tile(k_tile(k.stage), k_map, work.first_key(step), attention::kv_head_of(args, work.head), work.batch,
                  k_full(k.stage));
        k.advance<STAGES>();
    }
    __device__ __forceinline__ void values(const WorkTile& work, int step) {
        const unsigned free = TRANSPOSES ? v_rows_free(v.stage) : v_free(v.stage);
        const unsigned full = TRANSPOSES ? v_rows_full(v.stage) : v_full(v.stage);
        ptx::mbarrier_wait(free, v.parity ^ 1);
        const int kv_head = attention::kv_head_of(args, work.head);
        if constexpr (TRANSPOSED_BEFORE) {
            tma::arrive_and_expect(full, V_BYTES);
            tma::load_bytes(v_tile(v.stage), transposed_tile(args, work.batch, kv_head, work.tile_of_keys(args, step)),
                            V_BYTES, full);
        } else {
            copy_tile(TRANSPOSES ? v_rows(v.stage) : v_tile(v.stage), v_map, work.first_key(step), kv_head, work.batch,
                      full);
        }
        v.advance<TRANSPOSES ? V_ROW_STAGES : STAGES>();
    }

    // Ends the work of the transposing warps.
    __device__ __forceinline__ void end_values() {
        ptx::mbarrier_wait(v_rows_free(v.stage), v.parity ^ 1);
        *no_more_rows(v.stage) = 1;
        ptx::mbarrier_arrive(v_rows_full(v.stage));
    }

    // Values come one step after their keys, as they are used; together with them if they are transposed first.
    __device__ __forceinline__ void run() {
        Schedule schedule(args);
        WorkTile work = schedule.next();
        if (Q_PARTS) keys(work, 0);
        const HeadScales scales = scales_of_head(work);  // they arrive while the first copies are started
        queries(work);
        if (!Q_PARTS) keys(work, 0);
        if (TRANSPOSES) values(work, 0);
        announce(work, scales);
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

// Without a schedule of their own, for which they have too few registers.
__device__ inline void transpose_values(int warp) {
    const Transposer transposer;
    Place from, to;
    while (true) {
        ptx::mbarrier_wait(v_rows_full(from.stage), from.parity);
        // Only lane 0 reads, because lane 0 releases the rows later.
        if (ptx::same_in_warp(lane() == 0 ? *no_more_rows(from.stage) : 0)) return;
        ptx::mbarrier_wait(v_free(to.stage), to.parity ^ 1);
        jitter(to.stage);
        transposer.transpose(v_rows(from.stage), v_tile(to.stage), warp);
        if (lane() == 0) {
            ptx::mbarrier_arrive(v_full(to.stage));
            ptx::mbarrier_arrive(v_rows_free(from.stage));
        }
        from.advance<V_ROW_STAGES>();
        to.advance<STAGES>();
    }
}

// ---- the consumers, a warpgroup each ----

__device__ inline void release(unsigned free, bool when = true) {
    if (lane() == 0 && when) ptx::mbarrier_arrive(free);
}

// With TURNS the warpgroups start their products one after the other, so that the weights of one are computed while the
// tensor cores work for another. Every warpgroup takes one turn per step, also in steps that it skips.
__device__ inline void take_turn(int group) {
    if constexpr (TURNS) ptx::named_barrier_sync<256>(1 + group);
}
__device__ inline void pass_turn(int group) {
    if constexpr (TURNS) ptx::named_barrier_arrive<256>(1 + (group + 1) % CONSUMERS);
}

// A warpgroup with its rows and its places in the rings.
struct Consumer {
    const Arguments& args;
    const int group;
    WorkTile work;
    HeadScales scales;  // of its head, if the producer hands them over
    Rows rows;
    float value_scale;  // of the head whose output `rows` has; with BLOCK_SCALES, of the last step's values
    float score_scale;  // BLOCK_SCALES: products to exponents of 2, without the scale of the keys
    Place q, k, v;

    __device__ __forceinline__ Consumer(const Arguments& args_, int group_)
        : args(args_), group(group_), rows(args.softmax_scale * LOG2_E) {
        // If the compiler knows that the stage is always 0, it computes addresses of queries before the loops, and does
        // not see any more that all lanes have the same addresses (see `is_idle`).
        if constexpr (Q_STAGES == 1) q.stage = ptx::same_in_warp(threadIdx.x / 1024);
    }

    __device__ __forceinline__ static int first_row(const WorkTile& of, int group) {
        return of.first_query + 64 * group;
    }
    // Whether the warpgroup has no rows in the work tile. The vote tells the compiler that all lanes agree. Without it,
    // addresses of tiles are not uniform, and every product moves its descriptors to uniform registers.
    __device__ __forceinline__ bool is_idle() const {
        return __all_sync(0xffffffffu, first_row(work, group) >= min(work.end_query, args.seq_q));
    }
    // Steps whose keys no row of this warpgroup sees; the last step is never one of them.
    __device__ __forceinline__ int skipped() const {
        const int seen = attention::visible_keys(args, first_row(work, group) + 63);
        return ptx::same_in_warp(min(work.steps - 1, max(0, work.steps - (seen + BLOCK_N - 1) / BLOCK_N)));
    }
    __device__ __forceinline__ void skip_keys(int count) {
        for (int step = 0; step < count; ++step) {
            take_turn(group);
            ptx::mbarrier_wait(k_full(k.stage), k.parity);
            pass_turn(group);
            release(k_free(k.stage));
            k.advance<STAGES>();
        }
    }
    __device__ __forceinline__ void skip_values(int count) {
        for (int step = 0; step < count; ++step) {
            ptx::mbarrier_wait(v_full(v.stage), v.parity);
            release(v_free(v.stage));
            v.advance<STAGES>();
        }
    }

    __device__ __forceinline__ void hide(int step) {
        const int first_column = work.first_key(step) + lane() % 4 * 2;
        const int query = first_row(work, group) + own_row();
        const int visible[2] = {attention::visible_keys(args, query) - first_column,
                                attention::visible_keys(args, query + 8) - first_column};
        rows.hide(visible);
    }

    __device__ __forceinline__ void start_scores() {
        ptx::mbarrier_wait(k_full(k.stage), k.parity);
        wgmma::fence();
        rows.start_scores(rows.scores, q_tile(q.stage) + group * WARPGROUP_ROW_BYTES, k_tile(k.stage));
    }
    template <bool REFINE = true>
    __device__ __forceinline__ void start_output(bool replace = false) {
        ptx::mbarrier_wait(v_full(v.stage), v.parity);
        wgmma::fence();  // the compiler would add it: the wait is a loop
        rows.template start_output<REFINE>(v_tile(v.stage), replace);
    }
    // After the last scores of a work tile its queries are free, too.
    __device__ __forceinline__ void scores_done(int step) {
        wgmma::keep_below(rows.scores);
        release(k_free(k.stage));
        k.advance<STAGES>();
        release(q_free(q.stage), step == work.steps - 1);
    }
    __device__ __forceinline__ void output_done() {
        wgmma::groups_wait<0>();
        wgmma::keep_below(rows.output);
        release(v_free(v.stage));
        v.advance<STAGES>();
    }

    __device__ __forceinline__ HeadScales head_scales() const {
        return HANDS_SCALES ? scales : HeadScales(args, work, first_row(work, group));
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
        const int first = first_row(of, group);
        const Rows::Factors factors = Rows::finish(args, of.batch, of.head, first, statistics, value_scale);
        rows.store_output(args, of.batch, of.head, first, statistics, factors);
    }

    // Rounds the first weights of a work tile. No product may be in flight.
    __device__ __forceinline__ void round_first_weights() {
        if constexpr (FP8) {
            if (rows.may_raise_weights()) rows.raise_weights();
        }
        rows.round_weights();
    }

    // The first scores and weights after which no product is in flight.
    __device__ __forceinline__ void begin(int step) {
        const StepScales step_scales(args, work, step);
        skip_keys(step);
        take_turn(group);
        start_scores();
        pass_turn(group);
        wgmma::groups_wait<0>();
        scores_done(step);
        if (step < work.masked) hide(step);
        const HeadScales head = head_scales();
        first_scales(head, step_scales);
        value_scale = BLOCK_SCALES ? step_scales.value : head.value;
        rows.choose_origins();
        rows.weigh();
        round_first_weights();
        rows.pack_weights();
        skip_values(step);
    }

    // MAXIMUM late: whether a step's sums are compared before the wait for the output. Then the weights are computed before
    // it, too, and little is left to do between the wait and the next product. The compiler would move all that below the
    // wait, but it does not move an event for profilers, and the comparison decides whether there is one. At head_dim 64
    // a step takes 1 to 2% longer this way.
    static constexpr bool CHECKS_BEFORE_WAIT = HEAD_DIM > 64;

    // SUM: FP8, the output so far is added to the sums while the tensor cores compute the scores. REFINE: FP8, this step
    // has refined keys. REFINED_BEFORE: the step before has. Returns false if `lower_weights` must end the step.
    template <bool MASKED, bool SUM = false, bool REFINED_BEFORE = true, bool REFINE = true>
    __device__ __forceinline__ bool next_step(int step) {
        const StepScales step_scales(args, work, step);
        Rows::SumFactors sum_factors;
        if constexpr (SUM) sum_factors = rows.prepare_sums(value_scale);
        take_turn(group);
        start_scores();
        if constexpr (SUM) rows.add_to_sums(sum_factors);
        start_output<REFINED_BEFORE>(SUM);
        pass_turn(group);
        jitter(work.first_query + step);
        wgmma::groups_wait<1>();
        scores_done(step);
        if constexpr (MASKED) hide(step);
        next_scales(step_scales);
        constexpr bool LATE = LATE_MAXIMUM && !MASKED;
        if constexpr (LATE) {
            rows.weigh_step();
        } else {
            rows.choose_origins();
            rows.weigh();
        }
        rows.template round_weights<LATE, REFINE>();
        jitter(work.first_query - step);
        bool too_large = false;
        if constexpr (LATE && CHECKS_BEFORE_WAIT) {
            too_large = rows.any_sum_above(LARGEST_SUM);
            if (too_large) __prof_trigger(0);
        }
        output_done();
        if constexpr (LATE) {
            if constexpr (!CHECKS_BEFORE_WAIT) too_large = rows.any_sum_above(LARGEST_SUM);
            if (too_large) return false;
            rows.add_sum_of_step();
        }
        rows.template pack_weights<LATE, REFINE>();
        if constexpr (!LATE) rows.rescale_output();
        return true;
    }
    // MAXIMUM late: ends a step in which weights of the warp's rows may be too large: their origins move now.
    __device__ __forceinline__ void lower_weights(int step) {
        if (rows.any_sum_above(SUM_WITHOUT_SCORES)) {
            scores_again(rows.scores, args, work.batch, work.head, first_row(work, group),
                         (work.steps - 1 - step) * BLOCK_N);
            rows.choose_origins_again();
            rows.weigh_step();
        }
        rows.lower_weights();
        rows.add_sum_of_step();
        rows.round_weights();
        rows.pack_weights();
    }

    // The last product of `before` and the first step, `step`, of `work`.
    template <bool MASKED>
    __device__ __forceinline__ void next_tile(const WorkTile& before, int step) {
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
        if constexpr (MASKED) hide(step);
        rows.choose_origins();
        rows.weigh();
        jitter(work.first_query - step);
        output_done();
        round_first_weights();
        skip_values(step);
        store(before, statistics, value_scale);
        value_scale = BLOCK_SCALES ? step_scales.value : head.value;
        rows.clear_output();
        rows.pack_weights();
    }

    // Waits for a work tile and its queries. Returns whether there is one.
    __device__ __forceinline__ bool receive() {
        ptx::mbarrier_wait(q_full(q.stage, group), q.parity);
        // Only lane 0 reads, because lane 0 releases the tile later. The broadcasts tell the compiler that the numbers
        // are uniform (see `is_idle`).
        WorkTile here;
        if (lane() == 0) here = *work_of(q.stage);
        work.batch = ptx::same_in_warp(here.batch);
        work.head = ptx::same_in_warp(here.head);
        work.first_query = ptx::same_in_warp(here.first_query);
        work.end_query = ptx::same_in_warp(here.end_query);
        work.first_key_of_last_step = ptx::same_in_warp(here.first_key_of_last_step);
        work.masked = ptx::same_in_warp(here.masked);
        work.steps = ptx::same_in_warp(here.steps);
        if constexpr (HANDS_SCALES) {
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

    // Releases the tiles of a work tile in which the warpgroup has no rows.
    __device__ __forceinline__ void skip_tile() {
        for (int step = 0; step < work.steps; ++step) {
            skip_keys(1);
            skip_values(1);
        }
        release(q_free(q.stage));
    }

    // The steps from `step` to `end`, without a mask. They are compiled as a loop even if there is only one. Otherwise the
    // compiler moves parts of one step into the next, and the steps with different code need more registers. Returns false
    // if `lower_weights` must end step number `step`.
    template <bool REFINED_BEFORE, bool REFINE>
    __device__ __forceinline__ bool loop(int& step, int end) {
        asm volatile("" : "+r"(end));
        end = ptx::same_in_warp(end);
#pragma unroll 1
        for (; step < end; ++step) {
            if (!next_step<false, false, REFINED_BEFORE, REFINE>(step)) return false;
        }
        return true;
    }
    // The same with UNREFINED_STEP. Which steps have refined keys is known at compile time, because a product in a branch
    // is slow. The last one has. `first` is the first of the UNREFINED_STEP steps to which `step` belongs: a warp continues
    // there after `lower_weights`, because all warps of a warpgroup must execute the same products.
    __device__ __forceinline__ bool unmasked_steps_until(int& step, int& first, int end) {
        if constexpr (UNREFINED_STEP > 0) {
            for (; first <= end - UNREFINED_STEP; first = step) {
                if (!loop<true, false>(step, first + 1)) return false;
                if (!loop<false, true>(step, first + 2)) return false;
                if constexpr (UNREFINED_STEP > 2) {
                    if (!loop<true, true>(step, first + UNREFINED_STEP)) return false;
                }
            }
        }
#pragma unroll 1
        for (; step < end; ++step) {
            if (!next_step<false>(step)) return false;
        }
        return true;
    }
    // The steps from `step` on. Those that add to the sums have code of their own, so that the loop over the others is
    // short.
    __device__ __forceinline__ void unmasked_steps(int& step) {
        constexpr bool SUMS = FP8 && SUM_STEPS > 0;
        constexpr int PERIOD = SUMS ? SUM_STEPS : 1;
        int first = step;
        while (step < work.steps) {
            bool ended;
            if (SUMS && step % PERIOD == 0) {
                ended = next_step<false, SUMS>(step);
                first = step + 1;
                if (ended) ++step;
            } else {
                const int next_sum = SUMS ? (step / PERIOD + 1) * PERIOD : work.steps;
                ended = unmasked_steps_until(step, first, min(work.steps, next_sum));
            }
            if (ended) continue;
            lower_weights(step);
            ++step;
        }
    }

    // Computes work tiles until none is left or the warpgroup has no rows in the next one. Returns whether one is left.
    __device__ __forceinline__ bool stream() {
        int step = skipped();
        begin(step);
        WorkTile before = work;
        bool more;
        while (true) {
            ++step;
#pragma unroll 1
            for (; step < work.masked; ++step) next_step<true>(step);
            unmasked_steps(step);
            before = work;
            more = __all_sync(0xffffffffu, receive_next());
            if (!more || is_idle()) break;
            step = skipped();
            if (step < work.masked) {
                next_tile<true>(before, step);
            } else {
                next_tile<false>(before, step);
            }
        }
        start_output();
        output_done();
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
        if (threadIdx.x == CONSUMERS * 128) Producer{args, q_map, k_map, v_map}.run();
        if (TRANSPOSES && warp_of_group() >= 4 - Transposer::WARPS)
            transpose_values(ptx::same_in_warp(warp_of_group() - (4 - Transposer::WARPS)));
    } else {
        wgmma::raise_registers<CONSUMER_REGISTERS>();
        Consumer(args, group).run();
    }
}

}  // namespace hopper
