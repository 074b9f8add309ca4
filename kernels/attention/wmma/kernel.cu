// Fused attention on 16x16x16 tensor-core tiles in stages. Every stage is a setting of the knobs of this
// source.
//
// Algorithm (online softmax). A work tile is BLOCK_M query rows of one head. Its keys come in steps of
// BLOCK_N:
//
//   S = Q K^T                           tensor cores, fp16 in, fp32 out            -> shared memory
//   m' = max(m, max S), c = 2^(m-m')    fp32, base 2 with the scale folded in      in registers
//   P = 2^(S-m'), l = c l + sum P       fp32                                       -> shared memory
//   O = c O + P V                       fp32 arithmetic, or tensor cores           in registers
//
// and at the end O / l. FP8 inputs are decoded to FP16 on their way into the tiles (exact); the scales of Q
// and K fold into the softmax scale, that of V into the final division.
//
//              head_dim              BLOCK_N
//           +-----------+          +---------+           The computing warps share S and O by 16x16 blocks, in
//  BLOCK_M  |     Q     |  K^T ->  |  S, P   |           row-major order; the softmax goes by rows, with
//           +-----------+          +---------+           COMPUTE_THREADS / BLOCK_M neighbouring lanes each. S
//                                     head_dim           and P therefore pass through shared memory; O stays in
//           +-----------+          +-----------+         the registers of the warps (tensor cores) or of the
//           |     O     |   <-     |     V     |         lanes (scalar) that own it.
//           +-----------+          +-----------+ BLOCK_N
//
// The stages; each has the changes of the previous ones:
//   stage-c             loads a K/V tile, waits, computes; P V in fp32 arithmetic
//   stage-1             STAGES = 2: cp.async fills the next tile meanwhile; FP8 is copied as codes, decoded at its use
//   stage-2             PV = wmma: P rounded to fp16, P V on the tensor cores
//   stage-3             SWIZZLE: rows XOR-swizzled instead of padded
//   stage-4             STAGES = 3
//   stage-5-p1, -p2     PRODUCER_WARPS: warps that only fill tiles and signal mbarriers; the rest only compute
//   stage-5-persistent  PERSISTENT: a fixed number of blocks, each with one work tile after the other
//
// PATHOLOGY adds one known performance mistake to any stage, so that its cost can be measured (`warpsmith invert`). The
// result stays correct, and a mistake that is not selected costs nothing.
//
// Shared memory at 32x32, head_dim 64, fp16 (the manifest is the only formula; `warpsmith build` prints the
// total):
//   Q 4.5 KiB, K and V 4.5 KiB each per stage, S 5 KiB, P 2.5 KiB; the output is stored through S.
//
// NOTES.md lists experiments and their results.

#include "generated.cuh"

#include "common/arguments.cuh"
#include "common/elements.cuh"
#include "common/fragments.cuh"
#include "common/ptx.cuh"
#include "common/softmax.cuh"
#include "common/tiles.cuh"

extern __shared__ __align__(128) unsigned char shared_memory[];

namespace ladder {

using attention::Arguments;

// ---- the candidate ----

using Element = axis::Element<e4m3::Code>;
using OutputElement = OutputOf<Element, axis::fp8_output == axis::Fp8Output::bf16>::Type;

constexpr bool FP8 = axis::dtype == axis::Dtype::e4m3;
constexpr int HEAD_DIM = axis::head_dim;
constexpr int BLOCK_M = knob::BLOCK_M;
constexpr int BLOCK_N = knob::BLOCK_N;
constexpr int STAGES = knob::STAGES;
constexpr int COMPUTE_WARPS = knob::NUM_WARPS;
constexpr int COMPUTE_THREADS = COMPUTE_WARPS * 32;
constexpr int PRODUCER_THREADS = knob::PRODUCER_WARPS * 32;
constexpr bool SPECIALISED = PRODUCER_THREADS > 0;      // some warps copy, the others compute
constexpr bool PIPELINED = !SPECIALISED && STAGES > 1;  // all warps copy ahead and compute
constexpr bool PERSISTENT = knob::PERSISTENT > 0;
constexpr bool TENSOR_PV = knob::PV == decltype(knob::PV)::wmma;
constexpr bool SWIZZLED = knob::SWIZZLE;

// Deliberate performance mistakes; at most one is selected.
using knob::Pathology;
constexpr bool STRIDED = knob::PATHOLOGY == Pathology::strided;          // neighbouring lanes load from different rows
constexpr bool UNSTAGED = knob::PATHOLOGY == Pathology::unstaged;        // fragments directly from global memory
constexpr bool EXTRA_BARRIERS = knob::PATHOLOGY == Pathology::barriers;  // all warps synchronise after every product
constexpr bool DIVERGENT = knob::PATHOLOGY == Pathology::divergent;      // lanes take turns in the softmax
constexpr bool UNROLLED = knob::PATHOLOGY == Pathology::unrolled;        // more than the registers allow

constexpr int ROW_THREADS = COMPUTE_THREADS / BLOCK_M;                     // lanes that share a row's softmax
constexpr int SCORE_PAIRS = BLOCK_N / (2 * ROW_THREADS);                   // of scores, per lane
constexpr int SCORE_BLOCKS = BLOCK_M * BLOCK_N / 256 / COMPUTE_WARPS;      // 16x16, per warp
constexpr int DIM_BLOCKS = HEAD_DIM / 16;                                  // 16x16 output blocks side by side
constexpr int OUTPUT_BLOCKS = BLOCK_M / 16 * DIM_BLOCKS / COMPUTE_WARPS;   // per warp

static_assert(BLOCK_M % 16 == 0 && BLOCK_N % 16 == 0 && HEAD_DIM % 16 == 0, "whole 16x16x16 steps");
static_assert(ROW_THREADS >= 1 && ROW_THREADS * BLOCK_M == COMPUTE_THREADS, "every row has its lanes");
static_assert(SCORE_PAIRS * ROW_THREADS * 2 == BLOCK_N, "every score has its lane");
static_assert(SCORE_BLOCKS * COMPUTE_WARPS * 256 == BLOCK_M * BLOCK_N, "every score block has its warp");
static_assert(OUTPUT_BLOCKS * COMPUTE_WARPS * 256 == BLOCK_M * HEAD_DIM, "every output block has its warp");
static_assert(!SPECIALISED || STAGES >= 2, "producers need a slot to run ahead into");

using Fragment = Fragments<SWIZZLED || UNSTAGED>;
using QTile = Tile<smem::q_tile::dim1, SWIZZLED>;     // [BLOCK_M x HEAD_DIM]
using KvTile = Tile<smem::k_tile::dim2, SWIZZLED>;    // [BLOCK_N x HEAD_DIM]
using WeightTile = Tile<smem::weights::dim1, false>;  // [BLOCK_M x BLOCK_N]
constexpr int SCORE_PITCH = smem::scores::dim1;

static_assert(smem::q_tile::dim0 == BLOCK_M && smem::k_tile::dim1 == BLOCK_N, "as the manifest lays it out");
static_assert(smem::v_tile::dim0 == smem::k_tile::dim0 && smem::v_tile::dim2 == smem::k_tile::dim2, "V's like K's");
static_assert(smem::k_tile::dim0 == (FP8 && PIPELINED ? 1 : STAGES), "a ring of tiles, unless the ring holds codes");

// ---- where things are ----

using Byte = unsigned char;
using Mbarrier = unsigned long long;
constexpr int TILE_HALVES = smem::k_tile::dim1 * smem::k_tile::dim2;  // of one slot
constexpr int TILE_CODES = BLOCK_N * HEAD_DIM;                       // of one slot, [BLOCK_N x HEAD_DIM]

template <typename Buffer, typename T>
__device__ T* in_shared() {
    return reinterpret_cast<T*>(shared_memory + Buffer::offset);
}

__device__ QTile q_tile() { return {in_shared<smem::q_tile, __half>()}; }
__device__ KvTile k_tile(int slot) { return {in_shared<smem::k_tile, __half>() + slot * TILE_HALVES}; }
__device__ KvTile v_tile(int slot) { return {in_shared<smem::v_tile, __half>() + slot * TILE_HALVES}; }
__device__ Byte* k_codes(int slot) { return in_shared<smem::k_codes, Byte>() + slot * TILE_CODES; }
__device__ Byte* v_codes(int slot) { return in_shared<smem::v_codes, Byte>() + slot * TILE_CODES; }
__device__ WeightTile weights() { return {in_shared<smem::weights, __half>()}; }
__device__ float* scores() { return in_shared<smem::scores, float>(); }  // [BLOCK_M x SCORE_PITCH]
__device__ float* row_correction() { return in_shared<smem::row_correction, float>(); }  // [BLOCK_M]
__device__ float* row_normaliser() { return in_shared<smem::row_normaliser, float>(); }  // [BLOCK_M]
__device__ unsigned filled(int slot) { return ptx::shared_address(in_shared<smem::filled, Mbarrier>() + slot); }
__device__ unsigned emptied(int slot) { return ptx::shared_address(in_shared<smem::emptied, Mbarrier>() + slot); }

// A computing thread's place: its warp and lane, and the row whose softmax it shares.
__device__ int warp() { return threadIdx.x / 32; }
__device__ int lane() { return threadIdx.x % 32; }
__device__ int own_row() { return threadIdx.x / ROW_THREADS; }
__device__ int own_part() { return threadIdx.x % ROW_THREADS; }

// Synchronises all computing warps; the producers, if any, continue.
__device__ void compute_sync() {
    if constexpr (SPECIALISED) {
        ptx::named_barrier_sync<1, COMPUTE_THREADS>();
    } else {
        __syncthreads();
    }
}

// An unnecessary barrier, for PATHOLOGY = barriers.
__device__ void needless_sync() {
    if constexpr (EXTRA_BARRIERS) compute_sync();
}

// Runs independent work of the lanes: all lanes together, or in eight turns.
template <typename Work>
__device__ void every_lane(Work work) {
    if constexpr (DIVERGENT) {
#pragma unroll 1
        for (int turn = 0; turn < 8; ++turn)
            if (lane() % 8 == turn) work();
    } else {
        work();
    }
}

// ---- the work ----

// BLOCK_M query rows of one head and the keys any of them sees.
struct WorkTile {
    int batch;
    int head;
    int kv_head;
    int first_query;
    int steps;  // of BLOCK_N keys
};

__device__ int query_blocks(const Arguments& args) { return (args.seq_q + BLOCK_M - 1) / BLOCK_M; }
__device__ int work_tiles(const Arguments& args) { return query_blocks(args) * args.heads * args.batch; }

// Neighbouring indices share a head, so its K and V stay in L2; the last query block, the longest under a
// causal mask, comes first.
__device__ WorkTile work_tile(const Arguments& args, int index) {
    const int blocks = query_blocks(args);
    WorkTile work;
    work.batch = index / blocks / args.heads;
    work.head = index / blocks % args.heads;
    work.kv_head = attention::kv_head_of(args, work.head);
    work.first_query = (blocks - 1 - index % blocks) * BLOCK_M;
    const int last_query = min(work.first_query + BLOCK_M, args.seq_q) - 1;
    work.steps = (max(attention::visible_keys(args, last_query), 0) + BLOCK_N - 1) / BLOCK_N;
    return work;
}

__device__ GlobalRows<Element> q_rows(const Arguments& args, const WorkTile& work) {
    const auto* q = static_cast<const Element*>(args.q);
    return {attention::head_start(q, args.q_strides, work.batch, work.head), args.q_strides.sequence, args.seq_q};
}
__device__ GlobalRows<Element> k_rows(const Arguments& args, const WorkTile& work) {
    const auto* k = static_cast<const Element*>(args.k);
    return {attention::head_start(k, args.k_strides, work.batch, work.kv_head), args.k_strides.sequence, args.seq_k};
}
__device__ GlobalRows<Element> v_rows(const Arguments& args, const WorkTile& work) {
    const auto* v = static_cast<const Element*>(args.v);
    return {attention::head_start(v, args.v_strides, work.batch, work.kv_head), args.v_strides.sequence, args.seq_k};
}

// ---- S = Q K^T ----

// q [BLOCK_M x HEAD_DIM], k [BLOCK_N x HEAD_DIM] -> scores [BLOCK_M x BLOCK_N], unscaled
template <typename QuerySource, typename KeySource>
__device__ void scores_from(QuerySource q, KeySource k) {
    constexpr int COLUMN_BLOCKS = BLOCK_N / 16;
    constexpr int AT_ONCE = UNROLLED ? SCORE_BLOCKS : 2;
#pragma unroll AT_ONCE
    for (int i = 0; i < SCORE_BLOCKS; ++i) {
        const int block = warp() * SCORE_BLOCKS + i;
        const int row = block / COLUMN_BLOCKS * 16, column = block % COLUMN_BLOCKS * 16;
        Fragment::Sum sum;
        Fragment::clear(sum);
#pragma unroll
        for (int chunk = 0; chunk < HEAD_DIM / 8; chunk += 2) {
            Fragment::Left left;
            Fragment::RightTransposed right;
            Fragment::load(left, q, row, chunk);
            Fragment::load(right, k, column, chunk);
            Fragment::multiply_add(sum, left, right);
            needless_sync();
        }
        Fragment::store<SCORE_PITCH>(scores() + row * SCORE_PITCH + column, sum);
    }
}

// ---- softmax ----

// One row so far, in the base-2 exponent's units. Its ROW_THREADS lanes agree on `maximum`; each sums its own
// columns.
struct RowState {
    float maximum;
    float sum;
};

// Turns the row's scores into weights 2^(score - maximum), 0 where hidden, and moves its state on.
// Returns what the row's earlier weights and output must be multiplied by because the maximum rose.
__device__ float weights_from_scores(RowState& state, float scale, int visible) {
    float* row = scores() + own_row() * SCORE_PITCH;
    float2 x[SCORE_PAIRS];
    float largest = state.maximum;
    every_lane([&] {
#pragma unroll
        for (int i = 0; i < SCORE_PAIRS; ++i) {
            const int column = 2 * (own_part() + i * ROW_THREADS);
            const float2 score = *reinterpret_cast<const float2*>(row + column);
            x[i].x = column < visible ? score.x * scale : negative_infinity();
            x[i].y = column + 1 < visible ? score.y * scale : negative_infinity();
            largest = fmaxf(largest, fmaxf(x[i].x, x[i].y));
        }
    });
    largest = group_max<ROW_THREADS>(largest);

    const float origin = exponent_origin(largest);
    const float correction = ptx::exp2_approx(state.maximum - origin);
    state.maximum = largest;
    state.sum *= correction;
    every_lane([&] {
#pragma unroll
        for (int i = 0; i < SCORE_PAIRS; ++i) {
            const int column = 2 * (own_part() + i * ROW_THREADS);
            const float2 weight = make_float2(ptx::exp2_approx(x[i].x - origin), ptx::exp2_approx(x[i].y - origin));
            state.sum += weight.x + weight.y;
            if constexpr (TENSOR_PV) {
                __half* to = weights().first + own_row() * smem::weights::dim1 + column;
                *reinterpret_cast<__half2*>(to) = __floats2half2_rn(weight.x, weight.y);
            } else {
                *reinterpret_cast<float2*>(row + column) = weight;
            }
        }
    });
    return correction;
}

// Two fp32 numbers as a pair of elements.
__device__ inline __half2 pair_of(float x, float y, const __half*) { return __floats2half2_rn(x, y); }
__device__ inline __nv_bfloat162 pair_of(float x, float y, const __nv_bfloat16*) { return __floats2bfloat162_rn(x, y); }
using OutputPair = decltype(pair_of(0.0f, 0.0f, static_cast<const OutputElement*>(nullptr)));

// Eight fp32 outputs to eight consecutive elements of an output row.
__device__ void store_output(OutputElement* to, const float (&x)[8]) {
    OutputPair pairs[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) pairs[i] = pair_of(x[2 * i], x[2 * i + 1], to);
    *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(pairs);
}

// ---- O = c O + P V, in fp32 arithmetic ----

// Part p of a row's lanes owns the chunks of eight columns p, p + ROW_THREADS, ...: neighbours read
// neighbouring chunks of V.
struct ScalarOutput {
    static constexpr int CHUNKS = TENSOR_PV ? 1 : HEAD_DIM / 8 / ROW_THREADS;
    float value[CHUNKS][8];

    __device__ void clear() {
#pragma unroll
        for (int i = 0; i < CHUNKS * 8; ++i) value[i / 8][i % 8] = 0.0f;
    }

    __device__ void multiply(float factor) {
#pragma unroll
        for (int i = 0; i < CHUNKS * 8; ++i) value[i / 8][i % 8] *= factor;
    }

    // The row's weights were written by lanes of this warp.
    template <typename ValueSource>
    __device__ void add_product(float correction, ValueSource v) {
        __syncwarp();
        multiply(correction);
        const float* row = scores() + own_row() * SCORE_PITCH;
        constexpr int AT_ONCE = UNROLLED ? BLOCK_N : 4;
#pragma unroll AT_ONCE
        for (int key = 0; key < BLOCK_N; ++key) {
            const float weight = row[key];
#pragma unroll
            for (int c = 0; c < CHUNKS; ++c) {
                const uint4 chunk = v.piece(key, own_part() + c * ROW_THREADS);
                const __half2* pairs = reinterpret_cast<const __half2*>(&chunk);
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const float2 pair = __half22float2(pairs[i]);
                    value[c][2 * i] = fmaf(weight, pair.x, value[c][2 * i]);
                    value[c][2 * i + 1] = fmaf(weight, pair.y, value[c][2 * i + 1]);
                }
            }
            needless_sync();
        }
        // The next step writes scores. Without producers, the barrier around its copies is in between.
        if constexpr (SPECIALISED) compute_sync();
    }

    __device__ void store(float factor, OutputElement* o, long long stride, int rows) {
        multiply(factor);
        if (own_row() >= rows) return;
#pragma unroll
        for (int c = 0; c < CHUNKS; ++c)
            store_output(o + own_row() * stride + 8 * (own_part() + c * ROW_THREADS), value[c]);
    }
};

// ---- O = c O + P V, on the tensor cores ----

// The warp owns OUTPUT_BLOCKS 16x16 blocks in a row: part of one strip of 16 rows, or several whole strips.
struct TensorOutput {
    static constexpr int STRIPS = OUTPUT_BLOCKS > DIM_BLOCKS ? OUTPUT_BLOCKS / DIM_BLOCKS : 1;
    static constexpr int COLUMNS = OUTPUT_BLOCKS / STRIPS;  // blocks per strip
    static_assert(STRIPS * COLUMNS == OUTPUT_BLOCKS && DIM_BLOCKS % COLUMNS == 0, "the warp's blocks form a rectangle");
    Fragment::Sum block[STRIPS][COLUMNS];

    __device__ static int first_row(int strip) { return (warp() * OUTPUT_BLOCKS / DIM_BLOCKS + strip) * 16; }
    __device__ static int first_column() { return warp() * OUTPUT_BLOCKS % DIM_BLOCKS * 16; }

    __device__ void clear() {
#pragma unroll
        for (int i = 0; i < OUTPUT_BLOCKS; ++i) Fragment::clear(block[i / COLUMNS][i % COLUMNS]);
    }

    // row_factors [BLOCK_M]
    __device__ void multiply(const float* row_factors) {
#pragma unroll
        for (int s = 0; s < STRIPS; ++s) {
            Fragment::RowFactors factors;
            Fragment::load(factors, row_factors + first_row(s));
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c) Fragment::scale_rows(block[s][c], factors);
        }
    }

    // This reads the weights and corrections of other warps, so it waits for all warps first.
    template <typename ValueSource>
    __device__ void add_product(float correction, ValueSource v) {
        if (own_part() == 0) row_correction()[own_row()] = correction;
        compute_sync();
        multiply(row_correction());
#pragma unroll
        for (int key = 0; key < BLOCK_N; key += 16) {
            Fragment::Left left[STRIPS];
#pragma unroll
            for (int s = 0; s < STRIPS; ++s) Fragment::load(left[s], weights(), first_row(s), key / 8);
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c) {
                Fragment::Right right;
                Fragment::load(right, v, key, first_column() / 8 + 2 * c);
#pragma unroll
                for (int s = 0; s < STRIPS; ++s) Fragment::multiply_add(block[s][c], left[s], right);
                needless_sync();
            }
        }
    }

    // Block by block through the warp's patch: fragment -> patch [16 x 16] -> two lanes per row, eight
    // columns each.
    __device__ void store(float factor, OutputElement* o, long long stride, int rows) {
        if (own_part() == 0) row_normaliser()[own_row()] = factor;
        compute_sync();  // all warps are also done with the scores, which the patches overlay
        multiply(row_normaliser());
        float* patch = in_shared<smem::output_patch, float>() + warp() * 256;
#pragma unroll
        for (int i = 0; i < OUTPUT_BLOCKS; ++i) {
            Fragment::store<16>(patch, block[i / COLUMNS][i % COLUMNS]);
            __syncwarp();
            float x[8];
#pragma unroll
            for (int j = 0; j < 8; ++j) x[j] = patch[lane() * 8 + j];
            const int row = first_row(i / COLUMNS) + lane() / 2;
            const int column = first_column() + i % COLUMNS * 16 + lane() % 2 * 8;
            if (row < rows) store_output(o + row * stride + column, x);
            __syncwarp();
        }
    }
};

template <bool TENSOR>
struct OutputChoice {
    using Type = ScalarOutput;
};
template <>
struct OutputChoice<true> {
    using Type = TensorOutput;
};
using Output = OutputChoice<TENSOR_PV>::Type;

// ---- a work tile, from the computing threads' side ----

struct Attention {
    const Arguments& args;
    const WorkTile work;
    const float scale;  // scores to base-2 exponents
    const int visible;  // keys the own row sees
    RowState state;
    Output output;

    __device__ Attention(const Arguments& arguments, const WorkTile& tile)
        : args(arguments), work(tile),
          scale(args.softmax_scale * LOG2_E * attention::head_scale(args.q_scale, args.heads, work.batch, work.head) *
                attention::head_scale(args.k_scale, args.kv_heads, work.batch, work.kv_head)),
          visible(attention::visible_keys(args, work.first_query + own_row())), state{negative_infinity(), 0.0f} {
        output.clear();
    }

    __device__ void load_queries() {
        global_to_tile<BLOCK_M, HEAD_DIM, COMPUTE_THREADS, STRIDED>(q_rows(args, work), work.first_query, q_tile(),
                                                                    threadIdx.x);
    }

    // One step: the queries are in q, keys and values [step * BLOCK_N, ...) in k and v.
    template <typename QuerySource, typename KvSource>
    __device__ void attend(int step, QuerySource q, KvSource k, KvSource v) {
        scores_from(q, k);
        compute_sync();
        const float correction = weights_from_scores(state, scale, visible - step * BLOCK_N);
        output.add_product(correction, v);
    }

    __device__ void finish() {
        const float row_sum = group_sum<ROW_THREADS>(state.sum);
        const float v_scale = attention::head_scale(args.v_scale, args.kv_heads, work.batch, work.kv_head);
        const int rows = args.seq_q - work.first_query;
        OutputElement* o =
            attention::head_start(static_cast<OutputElement*>(args.o), args.o_strides, work.batch, work.head) +
            static_cast<long long>(work.first_query) * args.o_strides.sequence;
        output.store(normaliser(row_sum, v_scale), o, args.o_strides.sequence, rows);
        if (args.lse != nullptr && own_part() == 0 && own_row() < rows)
            args.lse[attention::row_index(args, work.batch, work.head, work.first_query + own_row())] =
                log_sum_exp(state.maximum, row_sum);
    }
};

// ---- all warps copy and compute ----

// Starts the copies of one step into a slot of the ring: tiles, or codes that are decoded later.
template <typename Rows>
__device__ void start_copies(const Rows& k, const Rows& v, int step, int slot) {
    const int first = step * BLOCK_N;
    if constexpr (FP8) {
        global_to_codes_async<BLOCK_N, HEAD_DIM, COMPUTE_THREADS, STRIDED>(k, first, k_codes(slot), threadIdx.x);
        global_to_codes_async<BLOCK_N, HEAD_DIM, COMPUTE_THREADS, STRIDED>(v, first, v_codes(slot), threadIdx.x);
    } else {
        global_to_tile_async<BLOCK_N, HEAD_DIM, COMPUTE_THREADS, STRIDED>(k, first, k_tile(slot), threadIdx.x);
        global_to_tile_async<BLOCK_N, HEAD_DIM, COMPUTE_THREADS, STRIDED>(v, first, v_tile(slot), threadIdx.x);
    }
}

// STAGES = 1: load, wait, compute.
__device__ void compute_in_turn(const Arguments& args, const WorkTile& work) {
    const GlobalRows<Element> k = k_rows(args, work), v = v_rows(args, work);
    Attention tile(args, work);
    tile.load_queries();
    for (int step = 0; step < work.steps; ++step) {
        if (step > 0) __syncthreads();  // the previous step no longer reads the tiles
        global_to_tile<BLOCK_N, HEAD_DIM, COMPUTE_THREADS, STRIDED>(k, step * BLOCK_N, k_tile(0), threadIdx.x);
        global_to_tile<BLOCK_N, HEAD_DIM, COMPUTE_THREADS, STRIDED>(v, step * BLOCK_N, v_tile(0), threadIdx.x);
        __syncthreads();
        tile.attend(step, q_tile(), k_tile(0), v_tile(0));
    }
    tile.finish();
}

// STAGES > 1: while step s is computed, the copies of steps s+1 .. s+STAGES-1 are in flight. One group of
// copies per step, empty ones past the end, so that "all but the newest STAGES-2" is always the current step.
__device__ void compute_pipelined(const Arguments& args, const WorkTile& work) {
    const GlobalRows<Element> k = k_rows(args, work), v = v_rows(args, work);
#pragma unroll
    for (int step = 0; step < STAGES - 1; ++step) {
        if (step < work.steps) start_copies(k, v, step, step);
        ptx::copy_group_end();
    }
    Attention tile(args, work);
    tile.load_queries();
    for (int step = 0; step < work.steps; ++step) {
        const int slot = step % STAGES;
        ptx::copy_groups_wait<PIPELINED ? STAGES - 2 : 0>();
        __syncthreads();  // all copies for this step are complete, and the previous step no longer uses its slot
        const int next = step + STAGES - 1;
        if (next < work.steps) start_copies(k, v, next, next % STAGES);
        ptx::copy_group_end();
        if constexpr (FP8) {
            codes_to_tile<BLOCK_N, HEAD_DIM, COMPUTE_THREADS>(k_codes(slot), k_tile(0), threadIdx.x);
            codes_to_tile<BLOCK_N, HEAD_DIM, COMPUTE_THREADS>(v_codes(slot), v_tile(0), threadIdx.x);
            __syncthreads();
            tile.attend(step, q_tile(), k_tile(0), v_tile(0));
        } else {
            tile.attend(step, q_tile(), k_tile(slot), v_tile(slot));
        }
    }
    tile.finish();
}

// PATHOLOGY = unstaged: nothing is copied; every warp loads what its products need, and waits for it.
template <typename Source>
__device__ void compute_unstaged(const Arguments& args, const WorkTile& work) {
    Attention tile(args, work);
    const Source q{q_rows(args, work), work.first_query};
    for (int step = 0; step < work.steps; ++step) {
        if (step > 0) __syncthreads();  // the previous step no longer uses the scores
        tile.attend(step, q, Source{k_rows(args, work), step * BLOCK_N}, Source{v_rows(args, work), step * BLOCK_N});
    }
    tile.finish();
}

// ---- some warps copy, the others compute ----

// A position in the ring of slots, counted over all work tiles; both roles count in the same way.
struct RingPosition {
    int slot = 0;
    unsigned parity = 0;  // of the round through the ring

    __device__ void advance() {
        if (++slot == STAGES) {
            slot = 0;
            parity ^= 1;
        }
    }
};

// Fills a slot and has every producer thread arrive at its barrier. FP16 copies are asynchronous and
// arrive when they are complete; FP8 passes through registers, where it is decoded.
template <typename Rows>
__device__ void fill_slot(const Rows& k, const Rows& v, int step, int slot) {
    const int thread = threadIdx.x - COMPUTE_THREADS;  // among the producers
    if constexpr (FP8) {
        global_to_tile<BLOCK_N, HEAD_DIM, PRODUCER_THREADS, STRIDED>(k, step * BLOCK_N, k_tile(slot), thread);
        global_to_tile<BLOCK_N, HEAD_DIM, PRODUCER_THREADS, STRIDED>(v, step * BLOCK_N, v_tile(slot), thread);
        ptx::mbarrier_arrive(filled(slot));
    } else {
        global_to_tile_async<BLOCK_N, HEAD_DIM, PRODUCER_THREADS, STRIDED>(k, step * BLOCK_N, k_tile(slot), thread);
        global_to_tile_async<BLOCK_N, HEAD_DIM, PRODUCER_THREADS, STRIDED>(v, step * BLOCK_N, v_tile(slot), thread);
        ptx::mbarrier_arrive_after_copies(filled(slot));
    }
}

// Runs up to STAGES steps ahead of the computing warps.
__device__ void produce(const Arguments& args, const WorkTile& work, RingPosition& ring) {
    const GlobalRows<Element> k = k_rows(args, work), v = v_rows(args, work);
    for (int step = 0; step < work.steps; ++step, ring.advance()) {
        ptx::mbarrier_wait(emptied(ring.slot), ring.parity ^ 1);  // the first round finds every slot empty
        fill_slot(k, v, step, ring.slot);
    }
}

__device__ void consume(const Arguments& args, const WorkTile& work, RingPosition& ring) {
    Attention tile(args, work);
    tile.load_queries();
    compute_sync();
    for (int step = 0; step < work.steps; ++step, ring.advance()) {
        ptx::mbarrier_wait(filled(ring.slot), ring.parity);
        tile.attend(step, q_tile(), k_tile(ring.slot), v_tile(ring.slot));
        __syncwarp();  // every lane has read the slot
        if (lane() == 0) ptx::mbarrier_arrive(emptied(ring.slot));
    }
    tile.finish();
}

__device__ void init_barriers() {
    if (threadIdx.x == 0) {
        for (int slot = 0; slot < STAGES; ++slot) {
            ptx::mbarrier_init(filled(slot), PRODUCER_THREADS);
            ptx::mbarrier_init(emptied(slot), COMPUTE_WARPS);
        }
    }
    __syncthreads();
}

// Calls `visit` with the block's work tiles: its own one, or every PERSISTENT-th.
template <typename Visit>
__device__ void for_each_work_tile(const Arguments& args, Visit visit) {
    if constexpr (PERSISTENT) {
        for (int index = blockIdx.x; index < work_tiles(args); index += knob::PERSISTENT)
            visit(work_tile(args, index));
    } else {
        visit(work_tile(args, blockIdx.x));
    }
}

// A minimum of one block allows as many registers as needed. Without it the compiler aimed at more blocks per
// multiprocessor and spilled. Over-unrolled code spills too: it gets only the registers of a full multiprocessor.
constexpr int BLOCK_THREADS = COMPUTE_THREADS + PRODUCER_THREADS;
constexpr int LEAST_BLOCKS = UNROLLED ? 1536 / BLOCK_THREADS : 1;

}  // namespace ladder

extern "C" __global__ void __launch_bounds__(ladder::BLOCK_THREADS, ladder::LEAST_BLOCKS)
attention_wmma(const __grid_constant__ attention::Arguments args) {
    using namespace ladder;
    if constexpr (SPECIALISED) {
        init_barriers();
        RingPosition ring;
        if (threadIdx.x >= COMPUTE_THREADS) {
            for_each_work_tile(args, [&](const WorkTile& work) { produce(args, work, ring); });
            ptx::copies_wait_all();  // no thread exits while its copies are in flight
        } else {
            for_each_work_tile(args, [&](const WorkTile& work) { consume(args, work, ring); });
        }
    } else {
        for_each_work_tile(args, [&](const WorkTile& work) {
            if constexpr (PERSISTENT) __syncthreads();  // the previous work tile no longer uses any buffer
            if constexpr (UNSTAGED) {
                compute_unstaged<NoTile>(args, work);
            } else if constexpr (PIPELINED) {
                compute_pipelined(args, work);
            } else {
                compute_in_turn(args, work);
            }
        });
    }
}
