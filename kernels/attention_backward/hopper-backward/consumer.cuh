// A consumer: a warpgroup with 64 keys. One step, with the keys as rows and the queries as columns:
//
//   S^T  = K Q^T        dP^T = V dO^T         64 x BLOCK_M, from shared memory
//   P^T  = 2^(S - LSE)  dS^T = P (dP - delta)
//   dV  += P^T dO                             64 x head_dim, P^T from registers
//   dS^T to shared memory, where the other consumer's part also is
//   dQ   = dS K                               64 x 32 or 64 x 64, its part of the sum over the block's keys
//   dK  += dS^T Q                             64 x head_dim, dS^T from registers
//   dQ to shared memory, from where the copy engine adds it to the workspace
//
// Heads above 128: 64 x 32 of S^T and dP^T, P^T and dS^T both to shared memory, and from there 64 x 128 of dV, dQ and dK.
//
// The accumulators of S^T and dP^T, rounded in pairs, are the left factors of dV and dK: neither leaves its lane. The
// tensor cores compute dP while the threads compute P, and dQ while dV ends.
#pragma once

#include "hopper-backward/candidate.cuh"

namespace backward {

struct Consumer {
    static constexpr int SCORES = SCORE_QUERIES / 2;  // of a thread
    static constexpr int RESULTS = RESULT_COLUMNS / 2;
    static constexpr int DQ_RESULTS = DQ_FLOATS / 128;

    const BackwardArguments& args;
    const Work& work;
    const int group;  // of the two consumers
    RingPosition q, d_o;
    RingPosition dq;  // of its part of dQ: one stage
    int ds_stage = 0;
    float* dq_to;  // DQ_DIRECT: where the thread's part of dQ belongs
    int head_of_dq = 0;
    float dk[RESULTS], dv[RESULTS];
    RingPosition scores;  // LATE_DQ: of the tile of dS to fill

    __device__ Consumer(const BackwardArguments& args_, const Work& work_, int group_)
        : args(args_), work(work_), group(group_) {
#pragma unroll
        for (int i = 0; i < RESULTS; ++i) dk[i] = dv[i] = 0.0f;
    }

    // The consumer's first key, first query and first column of the results, within the tiles.
    __device__ int own_keys() const { return WIDE ? 0 : group * 64; }
    __device__ int own_queries() const { return WIDE ? group * SCORE_QUERIES : 0; }
    __device__ int own_columns() const { return WIDE ? group * RESULT_COLUMNS : 0; }
    __device__ int own_row() const { return own_keys() + warp_of_group() * 16 + lane() / 4; }

    // d = own keys (or values) * own queries^T
    __device__ __forceinline__ void products_with(float (&d)[SCORES], unsigned own, unsigned others) const {
        const unsigned long long left = wgmma::rows_along_depth<tma::ROW_BYTES>(own + own_keys() * tma::ROW_BYTES);
        const unsigned long long right =
            wgmma::rows_along_depth<tma::ROW_BYTES>(others + own_queries() * tma::ROW_BYTES);
#pragma unroll
        for (int step = 0; step < HEAD_DIM / 16; ++step)
            wgmma::Products<Element, SCORE_QUERIES>::from_shared(d, KeyTile::depth_step(left, step),
                                                           QueryTile::depth_step(right, step), step > 0);
        wgmma::group_end();
    }

    // d += factors * others, with factors in registers, or of wide heads in a tile.
    __device__ __forceinline__ void add(float (&d)[RESULTS], const unsigned (&factors)[SCORES / 2], unsigned tile,
                                        unsigned others) const {
        const unsigned right = others + own_columns() / 64 * QueryTile::BOX_BYTES;
#pragma unroll
        for (int step = 0; step < BLOCK_M / 16; ++step) {
            using Products = wgmma::Products<Element, RESULT_COLUMNS>;
            if constexpr (WIDE) {
                const unsigned long long left = wgmma::rows_along_depth<tma::ROW_BYTES>(tile);
                Products::from_shared_along_columns(d, ScoreTile::depth_step(left, step), QueryTile::rows_step(right, step),
                                                    1);
            } else {
                Products::from_registers(d, factors[4 * step], factors[4 * step + 1], factors[4 * step + 2],
                                         factors[4 * step + 3], QueryTile::rows_step(right, step), 1);
            }
        }
        wgmma::group_end();
    }

    // d = the own part of dS K
    __device__ __forceinline__ void multiply_dq(float (&d)[DQ_RESULTS], unsigned scores) const {
        const int first = OWN_QUERIES ? 0 : group * DQ_COLUMNS;  // column
        const unsigned keys =
            in_shared(smem::k_tile::offset) + first / 64 * KeyTile::BOX_BYTES + first % 64 * sizeof(Element);
        const unsigned queries = scores + (OWN_QUERIES ? group * ScoreTile::BOX_BYTES : 0);
#pragma unroll
        for (int step = 0; step < BLOCK_N / 16; ++step)
            wgmma::Products<Element, DQ_COLUMNS>::from_columns(d, ScoreTile::rows_step(queries, step),
                                                               KeyTile::rows_step(keys, step), step > 0);
        wgmma::group_end();
    }

    // Weights from scores.
    template <bool MASKED>
    __device__ __forceinline__ void weigh(float (&s)[SCORES], const float* lse, int first_query) const {
        const float scale = args.forward.softmax_scale * LOG2_E;
        const bool causal = args.forward.mask == attention::Mask::causal;
#pragma unroll
        for (int block = 0; block < SCORE_QUERIES / 8; ++block) {
            const int column = own_queries() + block * 8 + lane() % 4 * 2;
            const float2 exponents = *reinterpret_cast<const float2*>(lse + column);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                float& x = s[block * 4 + i];
                x = ptx::exp2_approx(fmaf(scale, x, -(i % 2 == 0 ? exponents.x : exponents.y)));
                if constexpr (MASKED) {
                    const int key = work.first_key + own_row() + i / 2 * 8, query = first_query + column + i % 2;
                    if (key >= args.forward.seq_k || (causal && key > query + args.forward.diagonal)) x = 0.0f;
                }
            }
        }
    }

    // dS from the weights and dP, in place of dP.
    __device__ __forceinline__ void subtract_delta(const float (&p)[SCORES], float (&dp)[SCORES], const float* deltas) const {
#pragma unroll
        for (int block = 0; block < SCORE_QUERIES / 8; ++block) {
            const float2 delta = *reinterpret_cast<const float2*>(deltas + own_queries() + block * 8 + lane() % 4 * 2);
#pragma unroll
            for (int i = 0; i < 4; ++i)
                dp[block * 4 + i] = p[block * 4 + i] * (dp[block * 4 + i] - (i % 2 == 0 ? delta.x : delta.y));
        }
    }

    __device__ __forceinline__ static void round(unsigned (&to)[SCORES / 2], const float (&x)[SCORES]) {
#pragma unroll
        for (int i = 0; i < SCORES / 2; ++i) to[i] = pack(x[2 * i], x[2 * i + 1], static_cast<const Element*>(nullptr));
    }

    // Stores the own part of P or dS.
    __device__ __forceinline__ void store_scores(unsigned tile, const unsigned (&factors)[SCORES / 2]) const {
        const int row = own_keys() + warp_of_group() * 16 + lane() % 16;
#pragma unroll
        for (int step = 0; step < SCORE_QUERIES / 16; ++step) {
            const int chunk = own_queries() / 8 + 2 * step + lane() / 16;
            const unsigned(&words)[4] = reinterpret_cast<const unsigned(&)[4]>(factors[4 * step]);
            wgmma::store_matrix_x4(tile + chunk / 8 * ScoreTile::BOX_BYTES + tma::chunk_offset(row, chunk % 8), words);
        }
    }

    // DQ_DIRECT: where the thread's part of the first dQ of a head belongs.
    __device__ __forceinline__ float* first_dq(int head) const {
        return Workspace(args.forward, work.batch, work.first_head + head).dq_tile(work.first_tile, group) +
               threadIdx.x % 128 * 4;
    }

    // Gives the own part of dQ to the copy engine, or adds it to memory.
    __device__ __forceinline__ void store_dq(const float (&d)[DQ_RESULTS]) {
        if constexpr (DQ_DIRECT) {
#pragma unroll
            for (int i = 0; i < DQ_RESULTS; i += 4)
                ptx::add4_floats(dq_to + i / 4 * 512, d[i], d[i + 1], d[i + 2], d[i + 3]);
            dq_to += CONSUMERS * DQ_FLOATS;
            return;
        }
        ptx::mbarrier_wait(dq_free(group), dq.parity ^ 1);
        const unsigned to = dq_tile(group) + threadIdx.x % 128 * 16;
#pragma unroll
        for (int i = 0; i < DQ_RESULTS; i += 4)
            ptx::store16_shared(to + i / 4 * 128 * 16, d[i], d[i + 1], d[i + 2], d[i + 3]);
        tma::fence_shared_writes();
        __syncwarp();
        if (lane() == 0) ptx::mbarrier_arrive(dq_full(group));
        dq.advance<1>();
    }

    __device__ __forceinline__ static void consumers_sync() { ptx::named_barrier_sync<1, CONSUMERS * 128>(); }

    template <bool MASKED>
    __device__ __forceinline__ void step(int tile) {
        float s[SCORES], dp[SCORES];
        jitter(tile);
        QueryRing::wait_full(q);
        const unsigned queries = QueryRing::tile(q.stage);
        wgmma::fence();
        products_with(s, in_shared(smem::k_tile::offset), queries);
        GradientRing::wait_full(d_o);
        const unsigned gradients = GradientRing::tile(d_o.stage);
        products_with(dp, in_shared(smem::v_tile::offset), gradients);
        wgmma::groups_wait<1>();
        wgmma::keep_below(s);
        weigh<MASKED>(s, QueryRing::statistics(q.stage), tile * BLOCK_M);
        wgmma::groups_wait<0>();
        wgmma::keep_below(dp);
        subtract_delta(s, dp, GradientRing::statistics(d_o.stage));
        unsigned p[SCORES / 2], ds[SCORES / 2];
        round(p, s);
        round(ds, dp);
        const unsigned weights = in_shared(smem::p_tile::offset) + ds_stage * ScoreTile::BYTES;
        const unsigned scores = in_shared(smem::ds_tile::offset) + ds_stage * ScoreTile::BYTES;
        // With one tile: it is free when both consumers have multiplied it.
        if constexpr (DS_STAGES == 1) consumers_sync();
        store_scores(scores, ds);
        if constexpr (WIDE) {
            store_scores(weights, p);
        } else {
            wgmma::fence();
            add(dv, p, weights, gradients);
        }
        tma::fence_shared_writes();
        jitter(tile + 1);
        consumers_sync();
        float part[DQ_RESULTS];
        wgmma::fence();
        if constexpr (WIDE) add(dv, p, weights, gradients);
        multiply_dq(part, scores);
        wgmma::groups_wait<1>();
        wgmma::keep_below(dv);
        GradientRing::release(d_o);
        add(dk, ds, scores, queries);
        wgmma::groups_wait<1>();
        wgmma::keep_below(part);
        store_dq(part);
        wgmma::groups_wait<0>();
        wgmma::keep_below(dk);
        QueryRing::release(q);
        if constexpr (DS_STAGES == 2) ds_stage ^= 1;
    }

    __device__ __forceinline__ static unsigned scores_tile(int stage) {
        return in_shared(smem::ds_tile::offset) + stage * ScoreTile::BYTES;
    }
    __device__ __forceinline__ static void arrive_warp(unsigned barrier) {
        __syncwarp();
        if (lane() == 0) ptx::mbarrier_arrive(barrier);
    }
    // The position before this one in the ring of dS.
    __device__ __forceinline__ static RingPosition before(const RingPosition& at) {
        RingPosition position = at;
        if (DS_STAGES == 1 || --position.stage < 0) {
            position.stage = DS_STAGES - 1;
            position.parity ^= 1;
        }
        return position;
    }

    // A step with LATE_DQ. A consumer may be up to a step ahead of the other one. With PING_PONG they compute P and dS in
    // turns: the tensor cores have the products of one, while the other one's threads compute.
    template <bool MASKED>
    __device__ __forceinline__ void step_late(int tile, bool first, bool last) {
        float s[SCORES], dp[SCORES];
        jitter(tile);
        QueryRing::wait_full(q);
        const unsigned queries = QueryRing::tile(q.stage);
        wgmma::fence();
        products_with(s, in_shared(smem::k_tile::offset), queries);
        GradientRing::wait_full(d_o);
        const unsigned gradients = GradientRing::tile(d_o.stage);
        products_with(dp, in_shared(smem::v_tile::offset), gradients);
        wgmma::groups_wait<1>();
        wgmma::keep_below(s);
        if constexpr (PING_PONG > 0) await_turn();
        weigh<MASKED>(s, QueryRing::statistics(q.stage), tile * BLOCK_M);
        wgmma::groups_wait<0>();
        wgmma::keep_below(dp);
        subtract_delta(s, dp, GradientRing::statistics(d_o.stage));
        unsigned p[SCORES / 2], ds[SCORES / 2];
        round(p, s);
        round(ds, dp);
        if (PING_PONG == 2 && !(last && group == 1)) give_turn();
        ptx::mbarrier_wait(ds_free(scores.stage), scores.parity ^ 1);
        store_scores(scores_tile(scores.stage), ds);
        wgmma::fence();
        add(dv, p, 0, gradients);
        tma::fence_shared_writes();
        jitter(tile + 1);
        arrive_warp(ds_full(scores.stage));
        if (PING_PONG == 1 && !(last && group == 1)) give_turn();
        // In the first step the product has no use: the compiler serialises products that a branch skips.
        const RingPosition late = first ? scores : before(scores);
        ptx::mbarrier_wait(ds_full(late.stage), late.parity);
        float part[DQ_RESULTS];
        wgmma::fence();
        multiply_dq(part, scores_tile(late.stage));
        add(dk, ds, 0, queries);
        wgmma::groups_wait<2>();
        wgmma::keep_below(dv);
        GradientRing::release(d_o);
        wgmma::groups_wait<1>();
        wgmma::keep_below(part);
        if (!first) {
            arrive_warp(ds_free(late.stage));
            store_dq(part);
            // The next one is the first of the next head.
            if (DQ_DIRECT && tile == work.first_tile) dq_to = first_dq(++head_of_dq);
        }
        wgmma::groups_wait<0>();
        wgmma::keep_below(dk);
        QueryRing::release(q);
        scores.template advance<DS_STAGES>();
    }

    // After the last step.
    __device__ __forceinline__ void finish_late() {
        const RingPosition late = before(scores);
        ptx::mbarrier_wait(ds_full(late.stage), late.parity);
        float part[DQ_RESULTS];
        wgmma::fence();
        multiply_dq(part, scores_tile(late.stage));
        wgmma::groups_wait<0>();
        wgmma::keep_below(part);
        store_dq(part);
    }

    // PING_PONG: barrier 2 + c is consumer c's turn.
    __device__ __forceinline__ void await_turn() const { ptx::named_barrier_sync<CONSUMERS * 128>(2 + group); }
    __device__ __forceinline__ void give_turn() const { ptx::named_barrier_arrive<CONSUMERS * 128>(3 - group); }

    __device__ __forceinline__ void run_late() {
        int left = work.heads * (work.tiles - work.first_tile);
        if (left == 0) return;
        bool first = true;
        if (PING_PONG > 0 && group == 1) give_turn();
        if constexpr (DQ_DIRECT) dq_to = first_dq(head_of_dq = 0);
#pragma unroll 1
        for (int head = 0; head < work.heads; ++head) {
#pragma unroll 1
            for (int tile = work.first_tile; tile < work.masked_end; ++tile) {
                step_late<true>(tile, first, left == 1);
                first = false;
                --left;
            }
#pragma unroll 1
            for (int tile = work.masked_end; tile < work.tiles; ++tile) {
                step_late<false>(tile, first, left == 1);
                first = false;
                --left;
            }
        }
        finish_late();
    }

    // Stores the own rows of dK or dV.
    __device__ __forceinline__ void store(void* tensor, const attention::Strides& strides, const float (&d)[RESULTS],
                                          float factor) const {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int key = work.first_key + own_row() + half * 8;
            Element* const row =
                attention::row_of(static_cast<Element*>(tensor), strides, work.batch, work.kv_head, key) + own_columns();
#pragma unroll
            for (int block = 0; block < RESULT_COLUMNS / 8; block += 4) {
                unsigned words[4];
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const int at = min(4 * (block + i), RESULTS - 4) + 2 * half;
                    words[i] = pack(factor * d[at], factor * d[at + 1], row);
                }
                store_blocks(key < args.forward.seq_k ? row + block * 8 : nullptr, RESULT_COLUMNS - block * 8, words);
            }
        }
    }

    __device__ __forceinline__ void run() {
        ptx::mbarrier_wait(kv_full(), 0);
        if constexpr (LATE_DQ)
            run_late();
        else
            run_steps();
        store(args.dk, args.dk_strides, dk, args.forward.softmax_scale);
        store(args.dv, args.dv_strides, dv, 1.0f);
    }

    __device__ __forceinline__ void run_steps() {
#pragma unroll 1
        for (int head = 0; head < work.heads; ++head) {
            if constexpr (DQ_DIRECT) dq_to = first_dq(head);
#pragma unroll 1
            for (int tile = work.first_tile; tile < work.masked_end; ++tile) step<true>(tile);
#pragma unroll 1
            for (int tile = work.masked_end; tile < work.tiles; ++tile) step<false>(tile);
        }
    }
};

}  // namespace backward
