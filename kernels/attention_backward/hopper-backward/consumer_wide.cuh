// A consumer of heads above 128: a warpgroup with 64 of the step's 128 queries, and half of the columns of dK and dV. One
// step, with the queries as rows and the block's 64 keys as columns:
//
//   S   = Q K^T         dP = dO V^T           64 x 64, from shared memory
//   P   = 2^(S - LSE)   dS = P (dP - delta)   both to shared memory, where the other consumer's part also is
//   dV += P^T dO        dK += dS^T Q          64 x head_dim / 2, from shared memory
//   dQ  = dS K                                64 x head_dim, dS from registers; 64 columns at a time, added to memory
//
// Q and dO have one tile each. dO is free when dV is complete, Q when dK is; they are copied while dQ is computed.
#pragma once

#include "hopper-backward/candidate.cuh"

namespace backward {

struct WideConsumer {
    static constexpr int SCORES = BLOCK_N / 2;          // of a thread
    static constexpr int RESULTS = RESULT_COLUMNS / 2;  // of a thread
    static constexpr int CHUNKS = PADDED_DIM / 64;      // of dQ
    using Scores = tma::CopiedTile<Element, BLOCK_N, BLOCK_M>;

    const BackwardArguments& args;
    const Work& work;
    const int group;
    RingPosition q, d_o;
    float* dq_to;
    float dk[RESULTS], dv[RESULTS];

    __device__ WideConsumer(const BackwardArguments& args_, const Work& work_, int group_)
        : args(args_), work(work_), group(group_) {
#pragma unroll
        for (int i = 0; i < RESULTS; ++i) dk[i] = dv[i] = 0.0f;
    }

    __device__ int own_query() const { return group * 64 + warp_of_group() * 16 + lane() / 4; }

    // d = own queries * keys^T
    __device__ __forceinline__ void products_with(float (&d)[SCORES], unsigned queries, unsigned keys) const {
        const unsigned long long left = wgmma::rows_along_depth<tma::ROW_BYTES>(queries + group * 64 * tma::ROW_BYTES);
        const unsigned long long right = wgmma::rows_along_depth<tma::ROW_BYTES>(keys);
#pragma unroll
        for (int step = 0; step < HEAD_DIM / 16; ++step)
            wgmma::Products<Element, BLOCK_N>::from_shared(d, QueryTile::depth_step(left, step),
                                                           KeyTile::depth_step(right, step), step > 0);
        wgmma::group_end();
    }

    // d += scores^T * own columns
    __device__ __forceinline__ void add(float (&d)[RESULTS], unsigned scores, unsigned rows) const {
        const unsigned right = rows + group * RESULT_COLUMNS / 64 * QueryTile::BOX_BYTES;
#pragma unroll
        for (int step = 0; step < BLOCK_M / 16; ++step)
            wgmma::Products<Element, RESULT_COLUMNS>::from_columns(d, Scores::rows_step(scores, step),
                                                                   QueryTile::rows_step(right, step), 1);
        wgmma::group_end();
    }

    // d = 64 columns of own rows of dS K
    __device__ __forceinline__ static void multiply_dq(float (&d)[32], const unsigned (&ds)[SCORES / 2], int chunk) {
        const unsigned keys = in_shared(smem::k_tile::offset) + chunk * KeyTile::BOX_BYTES;
#pragma unroll
        for (int step = 0; step < BLOCK_N / 16; ++step)
            wgmma::Products<Element, 64>::from_registers(d, ds[4 * step], ds[4 * step + 1], ds[4 * step + 2],
                                                         ds[4 * step + 3], KeyTile::rows_step(keys, step), step > 0);
        wgmma::group_end();
    }

    template <bool MASKED>
    __device__ __forceinline__ void weigh(float (&s)[SCORES], const float* lse, int first_query) const {
        const float scale = args.forward.softmax_scale * LOG2_E;
        const bool causal = args.forward.mask == attention::Mask::causal;
        const float upper = lse[own_query()], lower = lse[own_query() + 8];
#pragma unroll
        for (int i = 0; i < SCORES; ++i) {
            s[i] = ptx::exp2_approx(fmaf(scale, s[i], -(i / 2 % 2 == 0 ? upper : lower)));
            if constexpr (MASKED) {
                const int key = work.first_key + i / 4 * 8 + lane() % 4 * 2 + i % 2;
                const int query = first_query + own_query() + i / 2 % 2 * 8;
                if (key >= args.forward.seq_k || (causal && key > query + args.forward.diagonal)) s[i] = 0.0f;
            }
        }
    }

    // dS from the weights and dP, in place of dP.
    __device__ __forceinline__ void subtract_delta(const float (&p)[SCORES], float (&dp)[SCORES], const float* deltas) const {
        const float upper = deltas[own_query()], lower = deltas[own_query() + 8];
#pragma unroll
        for (int i = 0; i < SCORES; ++i) dp[i] = p[i] * (dp[i] - (i / 2 % 2 == 0 ? upper : lower));
    }

    __device__ __forceinline__ static void round(unsigned (&to)[SCORES / 2], const float (&x)[SCORES]) {
#pragma unroll
        for (int i = 0; i < SCORES / 2; ++i) to[i] = pack(x[2 * i], x[2 * i + 1], static_cast<const Element*>(nullptr));
    }

    __device__ __forceinline__ void store_scores(unsigned tile, const unsigned (&words)[SCORES / 2]) const {
        const int row = group * 64 + warp_of_group() * 16 + lane() % 16;
#pragma unroll
        for (int step = 0; step < SCORES / 8; ++step)
            wgmma::store_matrix_x4(tile + tma::chunk_offset(row, 2 * step + lane() / 16),
                                   reinterpret_cast<const unsigned(&)[4]>(words[4 * step]));
    }

    __device__ __forceinline__ void add_dq(const float (&d)[32], int chunk) const {
#pragma unroll
        for (int i = 0; i < 32; i += 4)
            ptx::add4_floats(dq_to + chunk * 4096 + i / 4 * 512, d[i], d[i + 1], d[i + 2], d[i + 3]);
    }

    template <bool MASKED>
    __device__ __forceinline__ void step(int tile) {
        const unsigned weights = in_shared(smem::p_tile::offset), scores = in_shared(smem::ds_tile::offset);
        const unsigned queries = QueryRing::tile(0), gradients = GradientRing::tile(0);
        unsigned p[SCORES / 2], ds[SCORES / 2];
        {
            float s[SCORES], dp[SCORES];
            jitter(tile);
            QueryRing::wait_full(q);
            wgmma::fence();
            products_with(s, queries, in_shared(smem::k_tile::offset));
            GradientRing::wait_full(d_o);
            products_with(dp, gradients, in_shared(smem::v_tile::offset));
            wgmma::groups_wait<1>();
            wgmma::keep_below(s);
            weigh<MASKED>(s, QueryRing::statistics(0), tile * BLOCK_M);
            round(p, s);
            // Both consumers have multiplied the previous weights: otherwise Q and dO would not be there.
            store_scores(weights, p);
            wgmma::groups_wait<0>();
            wgmma::keep_below(dp);
            subtract_delta(s, dp, GradientRing::statistics(0));
            round(ds, dp);
        }
        store_scores(scores, ds);
        tma::fence_shared_writes();
        jitter(tile + 1);
        ptx::named_barrier_sync<1, CONSUMERS * 128>();
        float part[2][32];
        wgmma::fence();
        add(dv, weights, gradients);
        add(dk, scores, queries);
        multiply_dq(part[0], ds, 0);
        wgmma::groups_wait<2>();
        wgmma::keep_below(dv);
        GradientRing::release(d_o);
        wgmma::groups_wait<1>();
        wgmma::keep_below(dk);
        QueryRing::release(q);
#pragma unroll
        for (int chunk = 1; chunk < CHUNKS; ++chunk) {
            wgmma::fence();
            multiply_dq(part[chunk % 2], ds, chunk);
            wgmma::groups_wait<1>();
            wgmma::keep_below(part[(chunk - 1) % 2]);
            add_dq(part[(chunk - 1) % 2], chunk - 1);
        }
        wgmma::groups_wait<0>();
        wgmma::keep_below(part[(CHUNKS - 1) % 2]);
        add_dq(part[(CHUNKS - 1) % 2], CHUNKS - 1);
        dq_to += CONSUMERS * DQ_FLOATS;
    }

    // Stores the own columns of dK or dV.
    __device__ __forceinline__ void store(void* tensor, const attention::Strides& strides, const float (&d)[RESULTS],
                                          float factor) const {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int key = work.first_key + warp_of_group() * 16 + lane() / 4 + half * 8;
            Element* const row =
                attention::row_of(static_cast<Element*>(tensor), strides, work.batch, work.kv_head, key) + group * RESULT_COLUMNS;
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
#pragma unroll 1
        for (int head = 0; head < work.heads; ++head) {
            dq_to = Workspace(args.forward, work.batch, work.first_head + head).dq_tile(work.first_tile, group) +
                    threadIdx.x % 128 * 4;
#pragma unroll 1
            for (int tile = work.first_tile; tile < work.masked_end; ++tile) step<true>(tile);
#pragma unroll 1
            for (int tile = work.masked_end; tile < work.tiles; ++tile) step<false>(tile);
        }
        store(args.dk, args.dk_strides, dk, args.forward.softmax_scale);
        store(args.dv, args.dv_strides, dv, 1.0f);
    }
};

}  // namespace backward
