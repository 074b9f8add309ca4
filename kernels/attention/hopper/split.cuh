// The path for short launches: the two consumers of a block have the same 64 query rows and split the keys.
//
// A launch of a few microseconds mostly waits: for its instructions and parameters, which no cache has, for the first
// copies, and for one step after another. So this path has little code. A producer warp copies; with 512 keys and two
// consumers of two stages it never waits for a free tile. In FP8 three more warps transpose the tiles of V.
//
//   producer     Q  K0 K1  K2 V0 K3 V1  K4 V2 K5 V3  ...
//   consumer g   the steps g, g + 2, ...: S = Q K^T; then the weights of S, and O += P V for those that are computed
//   at the end   each consumer gives half of its rows to the other; each adds two halves, divides and stores
//
//            keys   0       1       2       3      (tiles of BLOCK_N)
//   64 rows       | cons. 0 | cons. 1 | cons. 0 | cons. 1 |
//
// `AtOnce` is faster if its conditions hold: it computes no maximum, and the scores of the next keys beside the weights.
//
// Shared memory: 64 rows of Q, and for each consumer STAGES tiles of K and of V (FP8: and of V before it is transposed).
#pragma once

#include "hopper/rows_of_dtype.cuh"
#include "hopper/work.cuh"

namespace hopper {

using SplitKeys = Ring<KeyTile, STAGES, ConsumerRing<KeyTile, STAGES>>;
using SplitValues = Ring<ValueTile, STAGES, ConsumerRing<ValueTile, STAGES>>;
using SplitValueRows = Ring<KeyTile, STAGES, ConsumerRing<KeyTile, STAGES>>;  // FP8: values that wait to be transposed

// The rings of one consumer. Its barriers are those of its keys, then those of its values.
__device__ __forceinline__ SplitKeys key_ring(int consumer) {
    return {{in_shared(smem::k_tile::offset) + consumer * STAGES * KeyTile::BYTES, barrier(consumer * 4 * STAGES)}};
}
__device__ __forceinline__ SplitValues value_ring(int consumer) {
    return {{in_shared(smem::v_tile::offset) + consumer * STAGES * ValueTile::BYTES,
             barrier(consumer * 4 * STAGES + 2 * STAGES)}};
}
__device__ __forceinline__ SplitValueRows value_row_ring(int consumer) {
    constexpr int FIRST = (smem::split_row_barriers::offset - FIRST_BARRIER) / 8;
    return {{in_shared(smem::v_rows::offset) + consumer * STAGES * KeyTile::BYTES,
             barrier(FIRST + consumer * 2 * STAGES)}};
}
// The ring that the producer copies V into.
template <bool TRANSPOSED>
__device__ __forceinline__ auto copied_value_ring(int consumer) {
    if constexpr (TRANSPOSED) {
        return value_row_ring(consumer);
    } else {
        return value_ring(consumer);
    }
}

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

    // The barriers of the first copies are initialised first, so that these copies start early.
    __device__ __forceinline__ static void init_first_barriers() {
        ptx::mbarrier_init(QueryRing{}.full(0), 1);
#pragma unroll
        for (int group = 0; group < CONSUMERS; ++group) ptx::mbarrier_init(key_ring(group).full(0), 1);
        tma::fence_barrier_init();
    }
    __device__ __forceinline__ static void init_other_barriers() {
#pragma unroll
        for (int group = 0; group < CONSUMERS; ++group) {
#pragma unroll
            for (int stage = 0; stage < STAGES; ++stage) {
                if (stage > 0) ptx::mbarrier_init(key_ring(group).full(stage), 1);
                ptx::mbarrier_init(value_ring(group).full(stage), FP8 ? Transposer::WARPS : 1);
                if constexpr (FP8) {
                    ptx::mbarrier_init(value_row_ring(group).full(stage), 1);
                    ptx::mbarrier_init(value_row_ring(group).free(stage), Transposer::WARPS);
                }
                ptx::mbarrier_init(key_ring(group).free(stage), 4);  // one arrival per warp
                ptx::mbarrier_init(value_ring(group).free(stage), 4);
            }
        }
        tma::fence_barrier_init();
    }
    __device__ __forceinline__ void queries() const {
        const QueryRing ring{};
        tma::arrive_and_expect(ring.full(0), QueryTile::BYTES);
        QueryTile::load(ring.tile(0), q_map, work.first_query, work.head, work.batch, ring.full(0));
    }
    template <typename AnyRing>
    __device__ __forceinline__ void copy(const AnyRing& ring, const TensorMap& map, int stage, int step) const {
        tma::arrive_and_expect(ring.full(stage), KeyTile::BYTES);
        KeyTile::load(ring.tile(stage), map, work.first_key(step), kv_head, work.batch, ring.full(stage));
    }
    __device__ __forceinline__ void copy_keys(int consumer, int stage, int step) const {
        copy(key_ring(consumer), k_map, stage, step);
    }
    __device__ __forceinline__ void copy_values(int consumer, int stage, int step) const {
        copy(copied_value_ring<FP8>(consumer), v_map, stage, step);
    }
    // The keys of every warpgroup's first step.
    __device__ __forceinline__ void copy_first_keys() const {
#pragma unroll
        for (int group = 0; group < CONSUMERS; ++group) {
            if (group < work.steps) copy_keys(group, 0, group);
        }
    }
    // Copies what else fits into the rings, in the order in which it is needed.
    __device__ __forceinline__ void fill_rings() const {
        const int fitting = min(CONSUMERS * STAGES, work.steps);
#pragma unroll 1
        for (int step = CONSUMERS; step < fitting + CONSUMERS; ++step) {
            if (step < fitting) copy_keys(step % CONSUMERS, step / CONSUMERS, step);
            const int before = step - CONSUMERS;
            if (before < fitting) copy_values(before % CONSUMERS, before / CONSUMERS, before);
        }
    }
    // Copies the other tiles, as tiles become free.
    __device__ __forceinline__ void copy_rest() const {
#pragma unroll 1
        for (int step = CONSUMERS * STAGES; step < work.steps; ++step) {
            jitter(work.first_query + step);
            const int group = step % CONSUMERS, t = step / CONSUMERS, stage = t % STAGES;
            const unsigned parity = t / STAGES % 2 ^ 1;
            ptx::mbarrier_wait(key_ring(group).free(stage), parity);
            copy_keys(group, stage, step);
            ptx::mbarrier_wait(copied_value_ring<FP8>(group).free(stage), parity);
            copy_values(group, stage, step);
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
        const SplitValueRows rows = value_row_ring(group);
        const SplitValues values = value_ring(group);
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

// RUNNING_MAX lazy: all steps of a consumer without a running maximum. Conditions: its tiles exactly fill the ring, only
// the first of them has masked keys, the type is fp16 or bf16, and head_dim is 64.
//
// All rows subtract the same constant, FIXED_MAX. A row's sum of weights shows whether the constant suited it. If it did
// not, the block computes its rows again with running maxima (`SplitGroup::compute`): the tiles are still in shared memory.
//
// fp16: if the sum is at most 65504, no weight is too large. Weights below 2^-14 are subnormal and have fewer bits. With a
// running maximum the largest weight is 1, so weights below 2^-14 of the largest have fewer bits, too. Here the largest
// weight is at least the sum divided by the number of keys. If the sum is at least half the number of keys, the largest
// weight is at least 1/2; it is below 1 only if more than half of the keys have such weights. So a light key has at least
// half of the precision that it has with a running maximum.
//
// bf16 has the range of floats. `compute` allows sums up to LARGEST_SUM, so values that do not overflow there do not
// overflow here.
template <int KEYS>  // = BLOCK_N; a parameter, so that other candidates do not compile it
struct AtOnce {
    static constexpr bool POSSIBLE = SPLIT && LAZY_MAX;
    static constexpr bool FP16 = axis::dtype == axis::Dtype::fp16;
    static constexpr float FIXED_MAX = FP16 ? -1.0f : 6.0f;
    static constexpr float SMALLEST_SUM = FP16 ? STAGES * KEYS / 2 : 0.015625f, LARGEST_SUM = FP16 ? 65504.0f : 65536.0f;
    static constexpr int PART = 64;  // keys whose scores are computed beside the weights of the previous parts
    static constexpr int PARTS = STAGES * KEYS / PART;
    static constexpr int BUFFERS = 2;
    static_assert(!POSSIBLE || (KEYS % PART == 0 && HEAD_DIM == 64), "a tile has whole parts");

    const SplitKeys& k;
    const SplitValues& v;
    const float scale;
    float scores[BUFFERS][PART / 2];  // then the weights
    unsigned weights[BUFFERS][PART / 4];
    float output[HEAD_DIM / 2];
    float sum[2] = {0.0f, 0.0f};  // of the weights before they are rounded
    unsigned queries[HEAD_DIM / 16][4];

    __device__ __forceinline__ AtOnce(const SplitKeys& k_, const SplitValues& v_, float scale_)
        : k(k_), v(v_), scale(scale_) {}

    // `swapped`: the lane's first row is the lower one of its two.
    __device__ __forceinline__ void load_queries(bool swapped) {
        const int row = warp_of_group() * 16 + (lane() % 16 ^ (swapped ? 8 : 0));
#pragma unroll
        for (int i = 0; i < HEAD_DIM / 16; ++i)
            ptx::load_matrix_x4(queries[i], QueryRing{}.tile(0) + tma::chunk_offset(row, 2 * i + lane() / 16));
    }
    __device__ __forceinline__ void start_scores(int part) {
        const int first = part * PART, stage = first / KEYS;
        if (first % KEYS == 0) k.wait_full(RingPosition{stage, 0});
        wgmma::fence();
        const unsigned long long b = wgmma::rows_along_depth<ROW_BYTES>(k.tile(stage) + first % KEYS * ROW_BYTES);
#pragma unroll
        for (int i = 0; i < HEAD_DIM / 16; ++i) {
            const unsigned(&q)[4] = queries[i];
            wgmma::Products<Element, PART>::from_registers_along_depth(scores[part % BUFFERS], q[0], q[1], q[2], q[3],
                                                                       wgmma::advance(b, i * 32), i > 0);
        }
    }
    // Turns the scores of 16 keys into weights, and starts output += weights V for them.
    __device__ __forceinline__ void exponentiate_and_start_output(int part, int within) {
        const int first = part * PART + within, stage = first / KEYS;
        float* const s = scores[part % BUFFERS] + within / 2;
        unsigned* const w = weights[part % BUFFERS] + within / 4;
#pragma unroll
        for (int i = 0; i < 8; ++i) s[i] = ptx::exp2_approx(fmaf(s[i], scale, -FIXED_MAX));
#pragma unroll
        for (int i = 0; i < 4; ++i) w[i] = pack(s[2 * i], s[2 * i + 1]);
        add(s);
        if (first % KEYS == 0) v.wait_full(RingPosition{stage, 0});
        wgmma::fence();
        const unsigned long long b = wgmma::rows_along_columns(v.tile(stage), 0);
        wgmma::Products<Element, HEAD_DIM>::from_registers(
            output, w[0], w[1], w[2], w[3], wgmma::advance(b, first % KEYS * ROW_BYTES), first > 0);
    }
    // Adds 8 weights to the sums: 4 of each row. Without the `asm`, the compiler would keep all weights and add them at the
    // end.
    __device__ __forceinline__ void add(const float* s) {
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            sum[row] += (s[2 * row] + s[2 * row + 1]) + (s[2 * row + 4] + s[2 * row + 5]);
            asm volatile("" : "+f"(sum[row]));
        }
    }
    // Returns whether the lane's rows are right. `mask` is called with the scores of each part of the first step, and with
    // the number of the part's first key in that step.
    template <typename Mask>
    __device__ __forceinline__ bool compute(bool swapped, const Mask& mask) {
        QueryRing{}.wait_full({});
        load_queries(swapped);
#pragma unroll
        for (int part = 0; part < BUFFERS; ++part) {
            start_scores(part);
            wgmma::group_end();
        }
#pragma unroll
        for (int part = 0; part < PARTS; ++part) {
            jitter(part);
            wgmma::groups_wait<BUFFERS - 1>();
            wgmma::keep_below(scores[part % BUFFERS]);
            if (part * PART < KEYS) mask(scores[part % BUFFERS], part * PART);
#pragma unroll
            for (int within = 0; within < PART; within += 16) exponentiate_and_start_output(part, within);
            if (part + BUFFERS < PARTS) start_scores(part + BUFFERS);
            wgmma::group_end();
        }
        wgmma::groups_wait<0>();
        wgmma::keep_below(output);
        sum[0] = group_sum<4>(sum[0]);
        sum[1] = group_sum<4>(sum[1]);
        return is_right(sum[0]) && is_right(sum[1]);
    }
    __device__ __forceinline__ static bool is_right(float sum) { return sum >= SMALLEST_SUM && sum <= LARGEST_SUM; }
};

template <int GROUPS>  // = CONSUMERS = 2; a parameter, so that candidates without SPLIT_KV do not compile it
struct SplitGroup {
    const Arguments& args;
    const int group;
    const WorkTile work;
    const int own_steps;
    const SplitKeys k;
    const SplitValues v;

    __device__ __forceinline__ SplitGroup(const Arguments& args_, int group_)
        : args(args_), group(group_), work(split_tile(args)),
          own_steps((work.steps - group + GROUPS - 1) / GROUPS), k(key_ring(group)), v(value_ring(group)) {}

    // At the end a lane stores one of its two rows: in consumer 1 the lower one, which is then its first row.
    __device__ __forceinline__ bool swapped() const { return group == 1; }
    // Where the first rows of the warp's lanes are. Computed before the loop, while the warp waits for the copies.
    __device__ __forceinline__ OutputPlace output_place() const {
        const int first_row = work.first_query + warp_of_group() * 16 + 8 * group;
        OutputPlace place{attention::head_start(static_cast<Output*>(args.o), args.o_strides, work.batch, work.head) +
                              static_cast<unsigned long long>(first_row) * args.o_strides.sequence,
                          args.o_strides.sequence, args.seq_q - first_row};
        asm volatile("" : "+l"(place.first), "+r"(place.stride), "+r"(place.rows));
        return place;
    }

    __device__ __forceinline__ void mask(Rows& rows, int step) const {
        if (step >= work.masked) return;
        const int first_column = work.first_key(step) + lane() % 4 * 2;
        const int query = work.first_query + own_row();
        const int visible[2] = {attention::visible_keys(args, query) - first_column,
                                attention::visible_keys(args, query + 8) - first_column};
        rows.mask(visible);
    }

    __device__ __forceinline__ bool can_compute_at_once() const {
        return own_steps == STAGES && work.masked <= group + GROUPS;
    }
    // Returns whether the result is right.
    __device__ __forceinline__ bool compute_at_once(Rows& rows) const {
        AtOnce<BLOCK_N> at_once(k, v, rows.scale);
        const bool right = at_once.compute(swapped(), [this](auto& scores, int first) {
            if (group >= work.masked) return;
            const int column = work.first_key(group) + first + lane() % 4 * 2;
            const int query = work.first_query + own_row(), lower = swapped() ? 0 : 8;
            const int visible[2] = {attention::visible_keys(args, query + 8 - lower) - column,
                                    attention::visible_keys(args, query + lower) - column};
            Rows::mask(scores, visible);
        });
#pragma unroll
        for (int i = 0; i < HEAD_DIM / 2; ++i) rows.output[i] = at_once.output[i];
        rows.running_max[0] = rows.running_max[1] = AtOnce<BLOCK_N>::FIXED_MAX;
        rows.sum[0] = at_once.sum[0];
        rows.sum[SUMS_OF_ROW] = at_once.sum[1];
        return right;
    }

    // All steps with running maxima. There is one place that computes weights, so its instructions are fetched once.
    __device__ __forceinline__ void compute(Rows& rows, float score_scale) const {
        rows = Rows(score_scale);
        if (own_steps == 0) return;
        RingPosition at;
        float value_scale = 1.0f;
        QueryRing{}.wait_full({});
        start_scores(rows, at);
        wgmma::groups_wait<0>();
        wgmma::keep_below(rows.scores);
        for (int t = 0;; ++t) {
            const int step = t * GROUPS + group;
            const StepScales scales(args, work, step);
            k.release(at);
            jitter(work.first_query + step);
            mask(rows, step);
            if constexpr (BLOCK_SCALES) {
                rows.scale = score_scale * scales.key;
                rows.change_value_scale(value_scale, scales.value);
                value_scale = scales.value;
            }
            rows.update_running_max();
            if (t > 0) rows.rescale_output();
            v.wait_full(at);
            rows.exponentiate_and_start_output(v.tile(at.stage));
            if (t == own_steps - 1) break;
            const RingPosition before = at;
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
        rows.complete_sums();
        if (swapped()) rows.swap_rows();
    }
    __device__ __forceinline__ void start_scores(Rows& rows, RingPosition at) const {
        k.wait_full(at);
        wgmma::fence();
        rows.start_scores(rows.scores, QueryRing{}.tile(0), k.tile(at.stage));
    }

    static constexpr int EXCHANGE_BARRIER = 1;  // of all consumers; 0 is __syncthreads

    // ---- the end: each consumer gives the second row of every lane to the other, and stores the first ----

    static constexpr int LEFT = smem::left_rows::dim1;  // float4 that one lane leaves for another
    static_assert(GROUPS == 2 && LEFT == HEAD_DIM / 16 + 1, "one of two rows of the output, then its running_max and sum");

    // Where a lane stores its row for the same lane of consumer `to`, which has the same rows and columns: LEFT times 16
    // bytes, 512 bytes apart.
    __device__ __forceinline__ static unsigned left(int to) {
        return in_shared(smem::left_rows::offset) + ((to * 4 + warp_of_group()) * LEFT * 32 + lane()) * 16;
    }
    __device__ __forceinline__ void leave_second_row(const Rows& rows) const {
        const unsigned at = left(1 - group);
#pragma unroll
        for (int i = 0; i < HEAD_DIM / 16; ++i) {
            const float* o = rows.output + 8 * i + 2;
            ptx::store16_shared(at + i * 512, o[0], o[1], o[4], o[5]);
        }
        ptx::store16_shared(at + (LEFT - 1) * 512, rows.running_max[1], rows.sum[SUMS_OF_ROW], 0.0f, 0.0f);
    }
    __device__ __forceinline__ void finish(Rows& rows, const OutputPlace& place, float value_scale,
                                           bool wants_lse) const {
        const unsigned at = left(group);
        float theirs[4];
        ptx::load16_shared(theirs, at + (LEFT - 1) * 512);
        // The factor of each consumer's row: it rescales to the larger running maximum and divides by the total sum.
        const float highest = fmaxf(rows.running_max[0], theirs[0]);
        const float own_part = ptx::exp2_approx(rows.running_max[0] - highest);
        const float their_part = ptx::exp2_approx(theirs[0] - highest);
        const float sum = fmaf(own_part, rows.sum[0], their_part * theirs[1]);
        const float normal = sum > 0.0f ? ptx::reciprocal_approx(sum) * value_scale : 0.0f;
        const float own_factor = own_part * normal, their_factor = their_part * normal;
#pragma unroll
        for (int i = 0; i < HEAD_DIM / 16; ++i) {
            float* o = rows.output + 8 * i;
            ptx::load16_shared(theirs, at + i * 512);
            o[0] = fmaf(theirs[0], their_factor, o[0] * own_factor);
            o[1] = fmaf(theirs[1], their_factor, o[1] * own_factor);
            o[4] = fmaf(theirs[2], their_factor, o[4] * own_factor);
            o[5] = fmaf(theirs[3], their_factor, o[5] * own_factor);
        }
        rows.store_first_row(place);
        const int query = work.first_query + own_row() + 8 * group;
        if (wants_lse && lane() % 4 == 0 && query < args.seq_q)
            args.lse[attention::row_index(args, work.batch, work.head, query)] = log_sum_exp(highest, sum);
    }

    // Computes and stores the rows. `place` is output_place().
    __device__ __forceinline__ void run(const OutputPlace& place, float score_scale, float value_scale,
                                        bool wants_lse) const {
        Rows rows(score_scale);
        bool tried = false, wrong = false;
        if constexpr (AtOnce<BLOCK_N>::POSSIBLE) {
            tried = can_compute_at_once();
            if (tried) wrong = !compute_at_once(rows);
        }
        bool safely = !tried;
        while (true) {
            if (safely) compute(rows, score_scale);
            leave_second_row(rows);
            if (!ptx::named_barrier_any<GROUPS * 128>(EXCHANGE_BARRIER, wrong)) break;
            safely = tried;  // both consumers come here, so both wait at the barrier again
            wrong = false;
        }
        finish(rows, place, value_scale, wants_lse);
    }
};

template <int GROUPS>
__device__ __forceinline__ void split(const Arguments& args, const TensorMap& q_map, const TensorMap& k_map,
                                      const TensorMap& v_map) {
    // No cache has the parameters and maps yet. Different warps load different cache lines at the same time.
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
        __syncthreads();  // every thread sees the barriers
        const OutputPlace place = consumer.output_place();
        unsigned wants_lse = args.lse != nullptr;  // read before the loop, like the place
        asm volatile("" : "+r"(wants_lse));
        consumer.run(place, score_scale, scales.value, wants_lse != 0);
    }
}

}  // namespace hopper
