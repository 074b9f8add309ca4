// The gradients of attention on Hopper. common/backward.cuh has the formulas.
//
//   1. attention_backward_prepare   LSE in base 2 and delta = rowsum(dO * O) of all rows, and zeros for dQ, to the workspace
//   2. attention_backward_hopper    a block has 128 keys of a key/value head (64 of wide heads), for all queries that see them
//   3. attention_backward_convert   dQ from fp32 to the type
//
// In launch 2 a producer warp copies Q and dO by tensor copies, two consumer warpgroups compute (`consumer.cuh`, and
// `consumer_wide.cuh` for wide heads with 128 queries per step), and two warps let the copy engine add the consumers' parts of dQ to
// the workspace, in fp32; with DQ_DIRECT the consumers do so. dK and dV are sums in registers, also over the query heads of a
// group. The order in which blocks add to dQ differs between launches, and so may its last bits; with ORDERED it is fixed.
//
// Rows that do not exist: tensor copies load zeros; a query has an LSE of +inf, so its weights are 0; a key's weights
// are set to 0 by the mask.
//
// Shared memory (the manifest is the only formula), fp16, head_dim 128: K and V 64 KB, two tiles each of Q and dO 64 KB, two
// of dS 32 KB, dQ 32 KB.

#include "hopper-backward/consumer.cuh"
#include "hopper-backward/consumer_wide.cuh"

namespace backward {

template <bool>
struct ConsumerOf {
    using Type = Consumer;
};
template <>
struct ConsumerOf<true> {
    using Type = WideConsumer;
};

__device__ __forceinline__ void init_barriers(const Arguments& args) {
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(kv_full(), 1);
        QueryRing::init();
        GradientRing::init();
        for (int consumer = 0; consumer < CONSUMERS; ++consumer) {
            ptx::mbarrier_init(dq_full(consumer), 4);  // one arrival per warp
            ptx::mbarrier_init(dq_free(consumer), 1);
        }
        for (int stage = 0; LATE_DQ && stage < DS_STAGES; ++stage) {
            ptx::mbarrier_init(ds_full(stage), CONSUMERS * 4);
            ptx::mbarrier_init(ds_free(stage), CONSUMERS * 4);
        }
        tma::fence_barrier_init();
        if constexpr (ORDERED) *number_of_block() = atomicAdd(started_blocks(args), 1);
    }
    __syncthreads();
}

// One thread copies all tiles.
__device__ __forceinline__ void produce(const BackwardArguments& args, const Work& work, const TensorMap& q_map,
                                        const TensorMap& k_map, const TensorMap& v_map, const TensorMap& d_o_map) {
    tma::arrive_and_expect(kv_full(), 2 * KeyTile::BYTES);
    KeyTile::load(in_shared(smem::k_tile::offset), k_map, work.first_key, work.kv_head, work.batch, kv_full());
    KeyTile::load(in_shared(smem::v_tile::offset), v_map, work.first_key, work.kv_head, work.batch, kv_full());
    RingPosition q, d_o;
    const int end = work.first_head + work.heads, padded = padded_rows(args.forward);
#pragma unroll 1
    for (int head = work.first_head; head < end; ++head) {
        const float* lse = Workspace(args.forward, work.batch, head).lse + work.first_tile * BLOCK_M;
#pragma unroll 1
        for (int query = work.first_tile * BLOCK_M; query < args.forward.seq_q; query += BLOCK_M) {
            jitter(query);
            QueryRing::copy(q, q_map, lse, query, head, work.batch);
            // With equal numbers of stages one position is enough; this thread has few registers.
            if constexpr (Q_STAGES == DO_STAGES) {
                GradientRing::copy(q, d_o_map, lse + padded, query, head, work.batch);
            } else {
                GradientRing::copy(d_o, d_o_map, lse + padded, query, head, work.batch);
                d_o.advance<DO_STAGES>();
            }
            q.advance<Q_STAGES>();
            lse += BLOCK_M;
        }
    }
}

// One thread lets the copy engine add a consumer's parts of dQ. It has few registers, so little is kept between steps.
template <int CONSUMER>
__device__ __forceinline__ void add_dq(const BackwardArguments& args) {
    const Work work(args.forward);
    const Workspace rows(args.forward, work.batch, work.first_head);
    float* part = rows.dq_tile(work.first_tile, CONSUMER);
    int* counter = rows.counters + work.first_tile * CONSUMERS + CONSUMER;
    Turn turn(args.forward, work);
    unsigned parity = 0;
#pragma unroll 1
    for (int head = work.heads; head > 0; --head) {
        turn.begin(args.forward, work.first_tile);
#pragma unroll 1
        for (int left = work.tiles - work.first_tile; left > 0; --left) {
            ptx::mbarrier_wait(dq_full(CONSUMER), parity);
            parity ^= 1;
            if constexpr (ORDERED) {
                asm volatile("// additions_are_ordered");
                while (ptx::load_acquire(counter) != turn.number()) {}
            }
            tma::add_floats(part, dq_tile(CONSUMER), DQ_FLOATS * sizeof(float));
            tma::stores_read();
            ptx::mbarrier_arrive(dq_free(CONSUMER));
            if constexpr (ORDERED) {
                tma::stores_done();
                ptx::store_release(counter, turn.number() + 1);
                counter += CONSUMERS;
                turn.advance();
            }
            part += CONSUMERS * DQ_FLOATS;
        }
        // To the same tile of the next head.
        const int done = (work.tiles - work.first_tile) * CONSUMERS, padded = padded_rows(args.forward);
        part += static_cast<long long>(padded / BLOCK_M * CONSUMERS - done) * DQ_FLOATS;
        if constexpr (ORDERED) counter += padded - done;
    }
}

}  // namespace backward

extern "C" __global__ void __launch_bounds__(256)
attention_backward_prepare(const __grid_constant__ attention::BackwardArguments args, const __grid_constant__ tma::TensorMap,
                           const __grid_constant__ tma::TensorMap, const __grid_constant__ tma::TensorMap,
                           const __grid_constant__ tma::TensorMap) {
    using namespace backward;
    const int head = blockIdx.y, batch = blockIdx.z, first = blockIdx.x * BLOCK_M;
    const Workspace rows(args.forward, batch, head);
    float4* dq = reinterpret_cast<float4*>(rows.dq + static_cast<long long>(first) * PADDED_DIM);
    for (int i = threadIdx.x; i < BLOCK_M * PADDED_DIM / 4; i += 256) dq[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    constexpr int LANES = HEAD_DIM > 128 ? 32 : HEAD_DIM > 64 ? 16 : 8;  // of a row
#pragma unroll
    for (int row = 0; row < BLOCK_M; row += 256 / LANES) {
        const int query = first + row + threadIdx.x / LANES;
        if (BLOCK_M % (256 / LANES) != 0 && query >= first + BLOCK_M) break;  // whole warps
        const bool exists = query < args.forward.seq_q;
        // A row that does not exist has the delta of the last one, which is finite.
        const float delta = attention::delta_of<Element, HEAD_DIM, LANES>(args, batch, head,
                                                                         exists ? query : args.forward.seq_q - 1);
        if (threadIdx.x % LANES != 0) continue;
        rows.deltas[query] = exists ? delta : 0.0f;
        rows.lse[query] = exists ? attention::exponent_of_lse(
                                       args.forward.lse[attention::row_index(args.forward, batch, head, query)])
                                 : -negative_infinity();
    }
    if (ORDERED && threadIdx.x < BLOCK_M) rows.counters[first + threadIdx.x] = 0;
}

extern "C" __global__ void __launch_bounds__(backward::THREADS, 1)
attention_backward_hopper(const __grid_constant__ attention::BackwardArguments args,
                          const __grid_constant__ tma::TensorMap q_map, const __grid_constant__ tma::TensorMap k_map,
                          const __grid_constant__ tma::TensorMap v_map, const __grid_constant__ tma::TensorMap d_o_map) {
    using namespace backward;
    if (threadIdx.x == 0) {
        tma::prefetch(q_map);
        tma::prefetch(k_map);
        tma::prefetch(v_map);
        tma::prefetch(d_o_map);
    }
    init_barriers(args.forward);
    const int group = ptx::same_in_warp(threadIdx.x / 128);
    if (group == CONSUMERS) {
        wgmma::lower_registers<PRODUCER_REGISTERS>();
        const int warp = ptx::same_in_warp(warp_of_group());
        if (warp == 0 && lane() == 0) produce(args, Work(args.forward), q_map, k_map, v_map, d_o_map);
        if (!DQ_DIRECT && warp == 1 && lane() == 0) add_dq<0>(args);
        if (!DQ_DIRECT && warp == 2 && lane() == 0) add_dq<1>(args);
    } else {
        wgmma::raise_registers<CONSUMER_REGISTERS>();
        ConsumerOf<WIDE && BLOCK_M == 128>::Type(args, Work(args.forward), group).run();
    }
}

extern "C" __global__ void __launch_bounds__(256)
attention_backward_convert(const __grid_constant__ attention::BackwardArguments args, const __grid_constant__ tma::TensorMap,
                           const __grid_constant__ tma::TensorMap, const __grid_constant__ tma::TensorMap,
                           const __grid_constant__ tma::TensorMap) {
    using namespace backward;
    const int tile = blockIdx.x, head = blockIdx.y, batch = blockIdx.z;
    const int consumer = threadIdx.x / 128, thread = threadIdx.x % 128;
    const float4* from =
        reinterpret_cast<const float4*>(Workspace(args.forward, batch, head).dq_tile(tile, consumer)) + thread;
    const int row = tile * BLOCK_M + (OWN_QUERIES ? consumer * 64 : 0) + warp_of_group() * 16 + lane() / 4;
    const int column = OWN_QUERIES ? 0 : consumer * DQ_COLUMNS;
    const float scale = args.forward.softmax_scale;
    Element* const upper = attention::row_of(static_cast<Element*>(args.dq), args.dq_strides, batch, head, row) + column;
    Element* const lower = upper + 8ull * args.dq_strides.sequence;
#pragma unroll
    for (int block = 0; block < DQ_COLUMNS / 8; block += 4) {
        unsigned words[2][4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float4 x = from[(block + i) * 128];
            words[0][i] = pack(scale * x.x, scale * x.y, upper);
            words[1][i] = pack(scale * x.z, scale * x.w, upper);
        }
        const int columns = HEAD_DIM - column - block * 8;
        store_blocks(row < args.forward.seq_q ? upper + block * 8 : nullptr, columns, words[0]);
        store_blocks(row + 8 < args.forward.seq_q ? lower + block * 8 : nullptr, columns, words[1]);
    }
}
