// The path for short launches: the warpgroups of a block have the same 64 query rows and split the keys.
//
// A launch of a few microseconds spends most of them waiting: for its instructions and parameters, which no cache has,
// for the first copies, and for one step after another. So this path has little code. A producer warp copies; with 512
// keys and two warpgroups of two stages it never waits. In FP8 three more warps transpose the tiles of V.
//
//   producer     Q  K0 K1  K2 K3  V0 V1  V2 V3  ...
//   warpgroup g  of the steps g, g + WARPGROUPS, ...:
//                S = Q K^T, then the weights of S, beside them O += P V for the weights that are there
//                at the end the warpgroups add their O, each for a share of the columns, divide and store
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
    const int query_block = (args.seq_q + BLOCK_M - 1) / BLOCK_M - 1 - blockIdx.x / CLUSTER;
    return WorkTile(args, query_block * BLOCK_M, args.seq_q, blockIdx.y, blockIdx.z);
}

// The blocks of a cluster split the keys like the warpgroups of a block: of all warpgroups of the cluster, this block's
// first one has this number, and a warpgroup's next step is STRIDE later.
constexpr int STRIDE = CONSUMERS * CLUSTER;
__device__ inline int first_group() { return CLUSTER == 1 ? 0 : blockIdx.x % CLUSTER * CONSUMERS; }

// ---- the producer, one thread ----

struct SplitProducer {
    const TensorMap& q_map;
    const TensorMap& k_map;
    const TensorMap& v_map;
    const WorkTile work;
    const int kv_head;
    const int steps;  // of this block

    __device__ __forceinline__ SplitProducer(const Arguments& args, const TensorMap& q_map_, const TensorMap& k_map_,
                                             const TensorMap& v_map_)
        : q_map(q_map_), k_map(k_map_), v_map(v_map_), work(split_tile(args)),
          kv_head(attention::kv_head_of(args, work.head)),
          steps(CLUSTER == 1 ? work.steps
                             : work.steps / STRIDE * CONSUMERS +
                                   min(max(work.steps % STRIDE - first_group(), 0), CONSUMERS)) {}

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
    __device__ __forceinline__ int first_key(int step) const {
        return work.first_key(CLUSTER == 1 ? step : step / CONSUMERS * STRIDE + first_group() + step % CONSUMERS);
    }
    __device__ __forceinline__ void copy(const Ring& ring, const TensorMap& map, int stage, int step) const {
        tma::arrive_and_expect(ring.full(stage), KV_BYTES);
#pragma unroll
        for (int box = 0; box < BOXES; ++box)
            tma::load(ring.tile(stage) + box * KV_BOX_BYTES, map, box * BOX_COLUMNS, first_key(step), kv_head,
                      work.batch, ring.full(stage));
    }
    // The keys of every warpgroup's first step.
    __device__ __forceinline__ void copy_first_keys() const {
#pragma unroll
        for (int group = 0; group < CONSUMERS; ++group) {
            if (group < steps) copy(Ring::keys(group), k_map, 0, group);
        }
    }
    // What else fits into the rings.
    __device__ __forceinline__ void fill_rings() const {
        const int fitting = min(CONSUMERS * STAGES, steps);
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
        for (int step = CONSUMERS * STAGES; step < steps; ++step) {
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
          own_steps((work.steps - (first_group() + group) + STRIDE - 1) / STRIDE), k(Ring::keys(group)), v(Ring::values(group)) {}

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
    __device__ __forceinline__ void compute(Rows& rows) const {
        if (own_steps == 0) return;
        Place at;
        ptx::mbarrier_wait(queries_full(), 0);
        start_scores(rows, at);
        wgmma::groups_wait<0>();
        wgmma::keep_below(rows.scores);
        for (int t = 0;; ++t) {
            const int step = t * STRIDE + first_group() + group;
            k.release(at);
            jitter(work.first_query + step);
            hide(rows, step);
            rows.choose_origins();
            if (t > 0) rows.rescale_output(t, [] { return OutputPlace(); });
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
    }
    __device__ __forceinline__ void start_scores(Rows& rows, Place at) const {
        k.wait(at);
        wgmma::fence();
        rows.start_scores(rows.scores, q_tile(0), k.tile(at.stage));
    }

    // ---- the end: every warpgroup adds the others' results for its share of the columns, and stores them ----

    // The first column of a warpgroup's share.
    __device__ __forceinline__ static constexpr int share(int of_group) {
        return HEAD_DIM / 16 * of_group / GROUPS * 16;
    }
    static constexpr int LEFT = smem::left_rows::dim2;  // float4 that one lane leaves for another
    static_assert(SHARE_ROWS || LEFT == 2 * ((HEAD_DIM / 16 + GROUPS - 1) / GROUPS) + 1,
                  "the output, then origins and sums");

    // What a lane of one warpgroup leaves for the same lane of another, which has the same rows and columns.
    __device__ __forceinline__ static float4* left(int from, int to) {  // [LEFT], 32 apart
        const int pair = from * (GROUPS - 1) + (to < from ? to : to - 1);
        return reinterpret_cast<float4*>(shared_memory + smem::left_rows::offset) +
               (pair * 4 + warp_of_group()) * (LEFT * 32) + lane();
    }

    template <int GROUP>
    __device__ __forceinline__ void finish_as(Rows& rows, const OutputPlace& place, float value_scale) const {
        Rows::Statistics own = rows.restart();
#pragma unroll
        for (int row = 0; row < 2; ++row) own.sum[row] = group_sum<4>(own.sum[row]);
#pragma unroll
        for (int to = 0; to < GROUPS; ++to) {
            if (to == GROUP) continue;
            float4* const leave = left(GROUP, to);
            leave[(LEFT - 1) * 32] = make_float4(own.origin[0], own.origin[1], own.sum[0], own.sum[1]);
#pragma unroll
            for (int column = share(to); column < share(to + 1); column += 8) {
                const float* o = rows.output + column / 2;
                leave[(column - share(to)) / 8 * 32] = make_float4(o[0], o[1], o[2], o[3]);
            }
        }
        ptx::named_barrier_sync<GROUPS * 32>(1 + warp_of_group());  // a warp waits only for those with the same rows
        float origin[GROUPS][2], sum[GROUPS][2];
#pragma unroll
        for (int from = 0; from < GROUPS; ++from) {
            const float4 theirs = from == GROUP ? make_float4(own.origin[0], own.origin[1], own.sum[0], own.sum[1])
                                                : left(from, GROUP)[(LEFT - 1) * 32];
            origin[from][0] = theirs.x;
            origin[from][1] = theirs.y;
            sum[from][0] = theirs.z;
            sum[from][1] = theirs.w;
        }
        // The factor of each warpgroup's rows: it brings them to a common origin and divides them by the total sum.
        float factor[GROUPS][2];
        Rows::Statistics all;
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            float highest = origin[0][row], total = 0.0f;
#pragma unroll
            for (int g = 1; g < GROUPS; ++g) highest = fmaxf(highest, origin[g][row]);
#pragma unroll
            for (int g = 0; g < GROUPS; ++g) {
                factor[g][row] = ptx::exp2_approx(origin[g][row] - highest);
                total = fmaf(factor[g][row], sum[g][row], total);
            }
            const float normal = total > 0.0f ? ptx::reciprocal_approx(total) * value_scale : 0.0f;
#pragma unroll
            for (int g = 0; g < GROUPS; ++g) factor[g][row] *= normal;
            all.origin[row] = highest;
            all.sum[row] = total;
        }
        constexpr int FIRST = share(GROUP), COUNT = share(GROUP + 1) - share(GROUP);
#pragma unroll
        for (int column = FIRST; column < FIRST + COUNT; column += 8) {
            float* o = rows.output + column / 2;
#pragma unroll
            for (int i = 0; i < 4; ++i) o[i] *= factor[GROUP][i / 2];
#pragma unroll
            for (int from = 0; from < GROUPS; ++from) {
                if (from == GROUP) continue;
                const float4 theirs = left(from, GROUP)[(column - FIRST) / 8 * 32];
                o[0] = fmaf(theirs.x, factor[from][0], o[0]);
                o[1] = fmaf(theirs.y, factor[from][0], o[1]);
                o[2] = fmaf(theirs.z, factor[from][1], o[2]);
                o[3] = fmaf(theirs.w, factor[from][1], o[3]);
            }
        }
        rows.template store_columns<FIRST, COUNT>(place);
        if (GROUP == 0) Rows::store_statistics(args, work.batch, work.head, work.first_query, all);
    }

    // SHARE rows: of the two rows of a lane a warpgroup adds up the one with its own number, and of the columns the part
    // of its block in the cluster.
    static constexpr int PART_COLUMNS = HEAD_DIM / CLUSTER;

    // What a lane leaves for the same lane of warpgroup `to` of the cluster: an address in the shared memory of that
    // block. Its own block reads it as what `from` has left for its warpgroup `to`.
    __device__ __forceinline__ static unsigned left_row(int from, int to) {
        const int pair = to % GROUPS * (STRIDE - 1) + (from < to ? from : from - 1);
        return in_shared(smem::left_rows::offset) + (((pair * 4 + warp_of_group()) * LEFT) * 32 + lane()) * 16;
    }
    template <int GROUP>  // of the cluster
    __device__ __forceinline__ void finish_rows_as(Rows& rows, const OutputPlace& place, float value_scale) const {
        constexpr int ROW = GROUP % GROUPS, RANK = GROUP / GROUPS;
        Rows::Statistics own = rows.restart();
#pragma unroll
        for (int row = 0; row < 2; ++row) own.sum[row] = group_sum<4>(own.sum[row]);
        if constexpr (CLUSTER > 1) ptx::cluster_wait();  // the other block has begun
#pragma unroll
        for (int to = 0; to < STRIDE; ++to) {
            if (to == GROUP) continue;
            const int row = to % GROUPS, rank = to / GROUPS;
            const bool here = rank == RANK;
            const unsigned leave = here ? left_row(GROUP, to) : ptx::in_block(left_row(GROUP, to), rank);
#pragma unroll
            for (int i = 0; i < PART_COLUMNS / 16; ++i) {
                const float* o = rows.output + (rank * PART_COLUMNS + 16 * i) / 2 + 2 * row;
                if (here) ptx::store16_shared(leave + i * 512, o[0], o[1], o[4], o[5]);
                else ptx::store16_cluster(leave + i * 512, o[0], o[1], o[4], o[5]);
            }
            if (here) ptx::store16_shared(leave + (LEFT - 1) * 512, own.origin[0], own.origin[1], own.sum[0], own.sum[1]);
            else ptx::store16_cluster(leave + (LEFT - 1) * 512, own.origin[0], own.origin[1], own.sum[0], own.sum[1]);
        }
        if constexpr (CLUSTER > 1) {
            ptx::cluster_arrive();
            ptx::cluster_wait();
        } else {
            ptx::named_barrier_sync<GROUPS * 32>(1 + warp_of_group());
        }
        float origin[STRIDE][2], sum[STRIDE][2], factor[STRIDE];
#pragma unroll
        for (int from = 0; from < STRIDE; ++from) {
            float theirs[4] = {own.origin[0], own.origin[1], own.sum[0], own.sum[1]};
            if (from != GROUP) ptx::load16_shared(theirs, left_row(from, GROUP) + (LEFT - 1) * 512);
#pragma unroll
            for (int row = 0; row < 2; ++row) {
                origin[from][row] = theirs[row];
                sum[from][row] = theirs[2 + row];
            }
        }
        Rows::Statistics all;
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            float highest = origin[0][row], total = 0.0f;
#pragma unroll
            for (int g = 1; g < STRIDE; ++g) highest = fmaxf(highest, origin[g][row]);
#pragma unroll
            for (int g = 0; g < STRIDE; ++g) {
                const float f = ptx::exp2_approx(origin[g][row] - highest);
                if (row == ROW) factor[g] = f;
                total = fmaf(f, sum[g][row], total);
            }
            all.origin[row] = highest;
            all.sum[row] = total;
        }
        const float normal = all.sum[ROW] > 0.0f ? ptx::reciprocal_approx(all.sum[ROW]) * value_scale : 0.0f;
#pragma unroll
        for (int i = 0; i < PART_COLUMNS / 16; ++i) {
            float* o = rows.output + (RANK * PART_COLUMNS + 16 * i) / 2 + 2 * ROW;
            const float f = factor[GROUP] * normal;
            o[0] *= f; o[1] *= f; o[4] *= f; o[5] *= f;
#pragma unroll
            for (int from = 0; from < STRIDE; ++from) {
                if (from == GROUP) continue;
                float theirs[4];
                ptx::load16_shared(theirs, left_row(from, GROUP) + i * 512);
                const float g = factor[from] * normal;
                o[0] = fmaf(theirs[0], g, o[0]);
                o[1] = fmaf(theirs[1], g, o[1]);
                o[4] = fmaf(theirs[2], g, o[4]);
                o[5] = fmaf(theirs[3], g, o[5]);
            }
        }
        rows.template store_row<ROW, RANK * PART_COLUMNS, PART_COLUMNS>(place);
        if (GROUP == 0) Rows::store_statistics(args, work.batch, work.head, work.first_query, all);
    }

    __device__ __forceinline__ void finish(Rows& rows, const OutputPlace& place, float value_scale) const {
        if constexpr (SHARE_ROWS) {
            const int of_cluster = first_group() + group;
            if (of_cluster == 0) finish_rows_as<0>(rows, place, value_scale);
            if (of_cluster == 1) finish_rows_as<1>(rows, place, value_scale);
            if constexpr (CLUSTER > 1) {
                if (of_cluster == 2) finish_rows_as<2>(rows, place, value_scale);
                if (of_cluster == 3) finish_rows_as<3>(rows, place, value_scale);
            }
            return;
        }
        if (group == 0) finish_as<0>(rows, place, value_scale);
        if (group == 1) finish_as<1>(rows, place, value_scale);
    }
};

template <int GROUPS>
__device__ __forceinline__ void split(const Arguments& args, const TensorMap& q_map, const TensorMap& k_map,
                                      const TensorMap& v_map) {
    // Parameters and maps are in no cache: different warps wait for different lines at the same time.
    if constexpr (CLUSTER > 1) ptx::cluster_arrive_relaxed();
    if (threadIdx.x == prefetching_thread()) {
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
            if (!KEYS_FIRST && producer.steps > 0) producer.queries();
            producer.copy_first_keys();
            if (KEYS_FIRST && producer.steps > 0) producer.queries();
            producer.init_other_barriers();
        }
        __syncthreads();
        if (lane() == 0) {
            producer.fill_rings();
            producer.copy_rest();
        }
        if constexpr (CLUSTER > 1) {
            __syncwarp();
            ptx::cluster_wait();
            ptx::cluster_arrive();
        }
    } else {
        const SplitGroup<GROUPS> consumer(args, group);
        const HeadScales scales(args, consumer.work);
        Rows rows(scales.score);
        __syncthreads();  // every thread sees the barriers
        const OutputPlace output = consumer.output_place();
        consumer.compute(rows);
        consumer.finish(rows, output, scales.value);
    }
}

}  // namespace hopper
