// The gradients of attention on mma.sync (m16n8k16, fp16 and bf16), without atomic additions. common/backward.cuh has the
// formulas.
//
//   1. attention_backward_delta     delta = rowsum(dO * O), to the workspace
//   2. attention_backward_mma_keys      a block has ROWS keys and loops over all queries that see them: dK and dV
//   3. attention_backward_mma_queries   a block has ROWS queries and loops over all keys that they see: dQ
//
// Launches 2 and 3 are one template. A block has rows of its own, in the pairs (K, V) or (Q, dO); a step has STEP rows of the
// other pair. A warp has 16 of the block's rows:
//
//   S  = first of own   * first of others^T      16 x STEP     scores, or their transpose
//   dP = second of own  * second of others^T     16 x STEP
//   P = 2^(S - LSE), dS = P (dP - delta)         in registers; rounded pairs are the left factors of the next products
//   launch 2: dV += P^T dO, dK += dS^T Q;  launch 3: dQ += dS K       the others again, transposed by ldmatrix
//
// The scores are computed twice, once in each launch: seven products instead of five. In exchange every sum has a fixed
// order, dQ needs no memory for fp32 sums, and no launch converts it. With COLUMN_SPLIT two warps share rows, because the
// sums of wide heads need more registers than a thread has.
//
// Tiles in shared memory are rows of 16-byte chunks, XORed with the row (common/chunks.cuh).

#include "generated.cuh"

#include "common/backward.cuh"
#include "common/chunks.cuh"
#include "common/delta.cuh"
#include "common/ptx.cuh"

namespace mma_backward {

using attention::BackwardArguments;
using attention::Strides;
using Element = axis::Element<void>;

constexpr int HEAD_DIM = axis::head_dim;
constexpr int ROWS = knob::ROWS;
constexpr int STEP = knob::STEP;
constexpr int SPLIT = knob::COLUMN_SPLIT;
constexpr int THREADS = ROWS * 2 * SPLIT;
constexpr int DEPTH_STEPS = HEAD_DIM / 16;         // of S and dP
constexpr int BLOCKS = STEP / 8;                   // of 8 columns, of S and dP
constexpr int COLUMN_BLOCKS = HEAD_DIM / 8 / SPLIT;  // of 8 columns of a result
static_assert(STEP % 16 == 0 && ROWS % 16 == 0 && COLUMN_BLOCKS % 2 == 0, "blocks of 16 by 16");

template <int COUNT>
using Tile = ChunkTile<COUNT, HEAD_DIM / 8, HEAD_DIM * 2, true>;
using OwnTile = Tile<ROWS>;
using StepTile = Tile<STEP>;
static_assert(smem::own::bytes == 2 * OwnTile::BYTES && smem::others::bytes == 2 * StepTile::BYTES, "as the manifest lays it out");

using Sums = float[COLUMN_BLOCKS][4];

__device__ void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, const __half*) {
    ptx::mma_16x8x16(d, a, b0, b1);
}
__device__ void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, const __nv_bfloat16*) {
    ptx::mma_16x8x16_bf16(d, a, b0, b1);
}

extern __shared__ __align__(128) unsigned char shared[];

__device__ unsigned place(unsigned offset) { return ptx::shared_address(shared) + offset; }
__device__ float* statistics() { return reinterpret_cast<float*>(shared + smem::statistics::offset); }
constexpr int STATISTICS = smem::statistics::dim1;
__device__ int lane() { return threadIdx.x % 32; }
__device__ int own_strip() { return threadIdx.x / 32 / SPLIT; }
__device__ int own_part() { return threadIdx.x / 32 % SPLIT; }

// One head of one batch entry of a tensor.
struct Rows {
    const Element* first;
    unsigned stride;
    int count;

    __device__ Rows(const void* tensor, const Strides& strides, int batch, int head, int rows)
        : first(attention::head_start(static_cast<const Element*>(tensor), strides, batch, head)),
          stride(strides.sequence), count(rows) {}
};

// Copies rows from `begin` on; those that do not exist become zeros.
template <typename T>
__device__ void copy(T tile, const Rows& rows, int begin) {
    for (int i = threadIdx.x; i < T::ROWS * T::CHUNKS; i += THREADS) {
        const int row = i / T::CHUNKS, chunk = i % T::CHUNKS;
        const bool exists = begin + row < rows.count;
        const Element* from =
            rows.first + static_cast<unsigned long long>(exists ? begin + row : 0) * rows.stride + chunk * 8;
        ptx::copy16_async(tile.chunk(row, chunk), from, exists);
    }
}

// LSE and delta of `count` queries from `begin` on. A query that does not exist gets weights of 0.
__device__ void load_statistics(const BackwardArguments& args, int batch, int head, int begin, int count) {
    for (int i = threadIdx.x; i < count; i += THREADS) {
        const bool exists = begin + i < args.forward.seq_q;
        const long long index = attention::row_index(args.forward, batch, head, exists ? begin + i : 0);
        statistics()[i] =
            exists ? attention::exponent_of_lse(args.forward.lse[index]) : -negative_infinity();
        statistics()[STATISTICS + i] = exists ? static_cast<const float*>(args.forward.workspace)[index] : 0.0f;
    }
}

// s = own * others^T for the warp's 16 rows.
__device__ void products(float (&s)[BLOCKS][4], OwnTile own, StepTile others) {
#pragma unroll
    for (int block = 0; block < BLOCKS; ++block)
#pragma unroll
        for (int i = 0; i < 4; ++i) s[block][i] = 0.0f;
    const Element* tag = nullptr;
    // Not unrolled: with many chunks the compiler would keep too many fragments.
#pragma unroll 2
    for (int step = 0; step < DEPTH_STEPS; ++step) {
        unsigned a[4];
        ptx::load_matrix_x4(a, own.chunk(own_strip() * 16 + lane() % 16, 2 * step + lane() / 16));
#pragma unroll
        for (int pair = 0; pair < BLOCKS / 2; ++pair) {
            unsigned b[4];
            const int row = pair * 16 + lane() / 16 * 8 + lane() % 8;
            ptx::load_matrix_x4(b, others.chunk(row, 2 * step + lane() / 8 % 2));
            multiply(s[2 * pair], a, b[0], b[1], tag);
            multiply(s[2 * pair + 1], a, b[2], b[3], tag);
        }
    }
}

// sums += factors * others. The factors are 16 x STEP, in the layout of the accumulators of the products.
__device__ void add(Sums& sums, const float (&factors)[BLOCKS][4], StepTile others) {
    const Element* tag = nullptr;
#pragma unroll
    for (int pair = 0; pair < BLOCKS / 2; ++pair) {
        const float(&left)[4] = factors[2 * pair];
        const float(&right)[4] = factors[2 * pair + 1];
        const unsigned a[4] = {pack(left[0], left[1], tag), pack(left[2], left[3], tag), pack(right[0], right[1], tag),
                               pack(right[2], right[3], tag)};
#pragma unroll
        for (int columns = 0; columns < COLUMN_BLOCKS; columns += 2) {
            unsigned b[4];
            const int chunk = own_part() * COLUMN_BLOCKS + columns + lane() / 16;
            ptx::load_matrix_x4_transposed(b, others.chunk(pair * 16 + lane() % 16, chunk));
            multiply(sums[columns], a, b[0], b[1], tag);
            multiply(sums[columns + 1], a, b[2], b[3], tag);
        }
    }
}

// Stores the warp's rows of a result.
__device__ void store(void* tensor, const Strides& strides, int batch, int head, int begin, int count, const Sums& sums,
                      float factor) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int row = begin + own_strip() * 16 + lane() / 4 + half * 8;
        if (row >= count) continue;
        Element* to = attention::row_of(static_cast<Element*>(tensor), strides, batch, head, row);
#pragma unroll
        for (int columns = 0; columns < COLUMN_BLOCKS; ++columns) {
            const float(&x)[4] = sums[columns];
            *reinterpret_cast<unsigned*>(to + (own_part() * COLUMN_BLOCKS + columns) * 8 + lane() % 4 * 2) =
                pack(factor * x[2 * half], factor * x[2 * half + 1], to);
        }
    }
}

// P and dS of the warp's 16 x STEP pairs, in place of the scores and dP. KEYS: the rows are keys and the columns queries.
template <bool KEYS>
__device__ void weigh(const BackwardArguments& args, float (&s)[BLOCKS][4], float (&dp)[BLOCKS][4], int first_row,
                      int first_column) {
    const float scale = args.forward.softmax_scale * LOG2_E;
    const bool causal = args.forward.mask == attention::Mask::causal;
#pragma unroll
    for (int block = 0; block < BLOCKS; ++block) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int row = own_strip() * 16 + lane() / 4 + i / 2 * 8, column = block * 8 + lane() % 4 * 2 + i % 2;
            const int query = KEYS ? first_column + column : first_row + row;
            const int key = KEYS ? first_row + row : first_column + column;
            const int statistic = KEYS ? column : row;
            const bool seen = key < args.forward.seq_k && (!causal || key <= query + args.forward.diagonal);
            const float exponent = fmaf(scale, s[block][i], -statistics()[statistic]);
            const float p = seen ? ptx::exp2_approx(exponent) : 0.0f;
            s[block][i] = p;
            dp[block][i] = p * (dp[block][i] - statistics()[STATISTICS + statistic]);
        }
    }
}

__device__ void clear(Sums& sums) {
#pragma unroll
    for (int columns = 0; columns < COLUMN_BLOCKS; ++columns)
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[columns][i] = 0.0f;
}

}  // namespace mma_backward

extern "C" __global__ void __launch_bounds__(256)
attention_backward_delta(const __grid_constant__ attention::BackwardArguments args) {
    using namespace mma_backward;
    const long long row = static_cast<long long>(blockIdx.x) * 8 + threadIdx.x / 32;
    const int seq = args.forward.seq_q, heads = args.forward.heads;
    if (row >= static_cast<long long>(args.forward.batch) * heads * seq) return;
    const int all_head = static_cast<int>(row / seq), query = static_cast<int>(row % seq);
    const float delta = attention::delta_of<Element, HEAD_DIM, 32>(args, all_head / heads, all_head % heads, query);
    if (lane() == 0) static_cast<float*>(args.forward.workspace)[row] = delta;
}

extern "C" __global__ void __launch_bounds__(mma_backward::THREADS, 1)
attention_backward_mma_keys(const __grid_constant__ attention::BackwardArguments args) {
    using namespace mma_backward;
    const attention::Arguments& forward = args.forward;
    const int begin = blockIdx.x * ROWS, kv_head = blockIdx.y, batch = blockIdx.z;
    const int group = forward.heads / forward.kv_heads;
    const OwnTile k{place(smem::own::offset)}, v{place(smem::own::offset) + OwnTile::BYTES};
    const StepTile q{place(smem::others::offset)}, d_o{place(smem::others::offset) + StepTile::BYTES};
    copy(k, Rows(forward.k, forward.k_strides, batch, kv_head, forward.seq_k), begin);
    copy(v, Rows(forward.v, forward.v_strides, batch, kv_head, forward.seq_k), begin);
    Sums dk, dv;
    clear(dk);
    clear(dv);
    const int first = attention::first_query_of(forward, begin) / STEP * STEP;
#pragma unroll 1
    for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
#pragma unroll 1
        for (int query = first; query < forward.seq_q; query += STEP) {
            copy(q, Rows(forward.q, forward.q_strides, batch, head, forward.seq_q), query);
            copy(d_o, Rows(args.d_o, args.d_o_strides, batch, head, forward.seq_q), query);
            load_statistics(args, batch, head, query, STEP);
            ptx::copies_wait_all();
            __syncthreads();
            float s[BLOCKS][4], dp[BLOCKS][4];
            products(s, k, q);
            products(dp, v, d_o);
            weigh<true>(args, s, dp, begin, query);
            add(dv, s, d_o);
            add(dk, dp, q);
            __syncthreads();
        }
    }
    ptx::copies_wait_all();
    store(args.dk, args.dk_strides, batch, kv_head, begin, forward.seq_k, dk, forward.softmax_scale);
    store(args.dv, args.dv_strides, batch, kv_head, begin, forward.seq_k, dv, 1.0f);
}

extern "C" __global__ void __launch_bounds__(mma_backward::THREADS, 1)
attention_backward_mma_queries(const __grid_constant__ attention::BackwardArguments args) {
    using namespace mma_backward;
    const attention::Arguments& forward = args.forward;
    const int begin = blockIdx.x * ROWS, head = blockIdx.y, batch = blockIdx.z;
    const int kv_head = attention::kv_head_of(forward, head);
    const OwnTile q{place(smem::own::offset)}, d_o{place(smem::own::offset) + OwnTile::BYTES};
    const StepTile k{place(smem::others::offset)}, v{place(smem::others::offset) + StepTile::BYTES};
    copy(q, Rows(forward.q, forward.q_strides, batch, head, forward.seq_q), begin);
    copy(d_o, Rows(args.d_o, args.d_o_strides, batch, head, forward.seq_q), begin);
    load_statistics(args, batch, head, begin, ROWS);
    Sums dq;
    clear(dq);
    const int end = attention::visible_keys(forward, min(begin + ROWS, forward.seq_q) - 1);
#pragma unroll 1
    for (int key = 0; key < end; key += STEP) {
        copy(k, Rows(forward.k, forward.k_strides, batch, kv_head, forward.seq_k), key);
        copy(v, Rows(forward.v, forward.v_strides, batch, kv_head, forward.seq_k), key);
        ptx::copies_wait_all();
        __syncthreads();
        float s[BLOCKS][4], dp[BLOCKS][4];
        products(s, q, k);
        products(dp, d_o, v);
        weigh<false>(args, s, dp, begin, key);
        add(dq, dp, k);
        __syncthreads();
    }
    ptx::copies_wait_all();
    store(args.dq, args.dq_strides, batch, head, begin, forward.seq_q, dq, forward.softmax_scale);
}
