// Fused attention on mma.sync: scores, weights and output stay in registers from the first product to the last.
// For sm_80 and everything newer; fp16 and bf16 by m16n8k16, E4M3 by m16n8k32 (sm_89 and newer; see FP8_WEIGHTS).
//
// Algorithm (online softmax). A work tile is BLOCK_M query rows of one head. Its keys come in steps of BLOCK_N, the
// last step first, so that the steps that need the mask (the diagonal, the end of the sequence) come before all
// others and have a loop of their own:
//
//   S = Q K^T                          tensor cores, fp32 sums
//   m' = max(m, max S)                 only where scores exceed m by more than 8: until then m stays, and O with it
//   P = 2^(scale S - scale m')         fp32, rounded to the input type (FP8: some of it twice)
//   l = 2^(m-m') l + sum P             beside P V, or one more column of it
//   O = 2^(m-m') O + P V               tensor cores, fp32 sums
//
// and at the end O / l. The scale (with log2 e and, for FP8, the scales of Q and K) is one FMA with the maximum; V's
// scale goes into the final division. It must not be negative.
//
// Who holds what. A warp owns STRIPS strips of 16 rows, and its lanes hold S and O as the tensor cores leave them:
//
//            8 keys                    lane l = 4 r + q has, of each 16x8 block, columns 2q and 2q+1 of rows r (top)
//          +--------+                  and r + 8 (bottom). The pairs of two neighbouring blocks, rounded, are exactly
//       r  | ..qq.. |                  the left factor of P V for 16 keys: P never leaves the lane that computed it.
//          |        |  16 rows         FP8: four blocks make one factor for 32 keys, taken in the order 0 1 8 9 2 3
//     r+8  | ..qq.. |                  10 11 ...; V's rows are taken in the same order (see add_values_fp8).
//          +--------+
//
// K and V lie in shared memory as rows of 16-byte chunks (common/chunks.cuh) and become fragments by ldmatrix, V's
// transposed on the way. In bytes fp16 and FP8 are alike: a step of the tensor cores is 32 bytes deep.
//
// Copies. K and V have rings of STAGES tiles each, filled by cp.async in the order K0 V0 K1 V1 ... Every slot has an
// mbarrier that says when its tile is there, from all threads that copy it. Threads meet only where a slot is filled
// again, so that keys that fit into the rings are passed without meeting at all.
//
//     wait for K_t;  S = Q K_t;  meet, refill K's slot;  wait for V_t;  O += P V_t;  meet, refill V's slot
//
// SPLIT_KV: the block's warps form that many groups. All groups share the queries; group g takes every SPLIT_KV-th
// step, with rings and barriers of its own, and at the end the groups' outputs are added through shared memory. For
// problems with too few query rows to fill a GPU: more warps, and more copies in flight, per row.
//
// A short launch is mostly its beginning and its end: code that runs once, and waits for its instructions and for its
// parameters. So there the code is short rather than unrolled, with few branches and few words per address.
//
// Shared memory, fp16 (the manifest is the only formula):
//   K and V: 2 * SPLIT_KV * STAGES * BLOCK_N * head_dim * 2 bytes; Q another BLOCK_M * head_dim * 2; what all groups
//   but one leave behind: BLOCK_M * (head_dim + 8) * 4 each. 64 keys, head_dim 64, two stages: 32 KiB and Q.
// Registers per lane: O takes STRIPS * head_dim / 2, S takes STRIPS * BLOCK_N / 2, Q the same as O in halves.
//
// What was tried and what came of it: NOTES.md.

#include "generated.cuh"

#include "common/arguments.cuh"
#include "common/chunks.cuh"
#include "common/elements.cuh"
#include "common/ptx.cuh"
#include "common/softmax.cuh"

extern __shared__ __align__(128) unsigned char shared_memory[];

namespace flash {

using attention::Arguments;

// ---- the candidate ----

// The element types: how two fp32 numbers become a register of them, and who multiplies.
template <axis::Dtype>
struct Numbers;
template <>
struct Numbers<axis::Dtype::fp16> {
    using Element = __half;
    __device__ static void multiply_add(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
        ptx::mma_16x8x16(d, a, b0, b1);
    }
};
template <>
struct Numbers<axis::Dtype::bf16> {
    using Element = __nv_bfloat16;
    __device__ static void multiply_add(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
        ptx::mma_16x8x16_bf16(d, a, b0, b1);
    }
};
template <>
struct Numbers<axis::Dtype::e4m3> {
    using Element = e4m3::Code;
    __device__ static void multiply_add(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
        ptx::mma_16x8x32_e4m3(d, a, b0, b1);
    }
};
using Number = Numbers<axis::dtype>;
using Element = Number::Element;
using Output = OutputOf<Element>::Type;

constexpr bool FP8 = axis::dtype == axis::Dtype::e4m3;
// Hopper's tensor cores multiply FP8 by wgmma only: for m16n8k32 the compiler unpacks both factors to fp16. So there P is
// fp16 to begin with, and only V is unpacked.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
constexpr bool FP8_WEIGHTS = false;
#else
constexpr bool FP8_WEIGHTS = FP8;
#endif
constexpr int HEAD_DIM = axis::head_dim;
constexpr int BLOCK_M = knob::BLOCK_M;
constexpr int BLOCK_N = knob::BLOCK_N;
constexpr int STAGES = knob::STAGES;
constexpr int GROUPS = knob::SPLIT_KV;  // of warps, each with its own share of the keys
constexpr bool SPLIT = GROUPS > 1;
constexpr int GROUP_WARPS = knob::NUM_WARPS / GROUPS;
constexpr int GROUP_THREADS = GROUP_WARPS * 32;
constexpr int THREADS = GROUPS * GROUP_THREADS;
constexpr int STRIPS = BLOCK_M / (16 * GROUP_WARPS);  // of 16 rows, per warp
constexpr bool QUERIES_IN_REGISTERS = knob::Q_IN == decltype(knob::Q_IN)::registers;
constexpr bool LOOK_AHEAD = knob::LOOK_AHEAD;
constexpr bool PERSISTENT = knob::PERSISTENT > 0;
constexpr int POLYNOMIALS = knob::EXP2_POLY;  // among four pairs of weights

constexpr int ROW_BYTES = HEAD_DIM * sizeof(Element);
constexpr int ROW_CHUNKS = ROW_BYTES / 16;
constexpr int DEPTH_STEPS = (ROW_BYTES + 31) / 32;            // of Q K^T
constexpr bool LAST_DEPTH_IS_HALF = ROW_BYTES % 32 != 0;      // FP8 at head_dim 80
constexpr int SCORE_BLOCKS = BLOCK_N / 8;                     // 16x8, side by side
constexpr int OUTPUT_BLOCKS = HEAD_DIM / 8;                   // 16x8, side by side
constexpr int STEP_KEYS = FP8_WEIGHTS ? 32 : 16;              // of one tensor-core step of P V
constexpr int KEY_STEPS = BLOCK_N / STEP_KEYS;

static_assert(knob::NUM_WARPS % GROUPS == 0 && STRIPS >= 1 && STRIPS * 16 * GROUP_WARPS == BLOCK_M, "whole strips");
static_assert(BLOCK_N % STEP_KEYS == 0 && BLOCK_N % 16 == 0, "whole tensor-core steps");
static_assert(ROW_BYTES % 16 == 0 && HEAD_DIM % 16 == 0, "whole chunks, and blocks in pairs");
static_assert(!SPLIT || GROUPS + GROUP_WARPS <= 15, "named barriers: one per group, one per warp of a group");
#if defined(__CUDA_ARCH__)
static_assert(!FP8 || __CUDA_ARCH__ >= 890, "the tensor cores multiply E4M3 from sm_89 on");
#endif

using QTile = ChunkTile<BLOCK_M, ROW_CHUNKS, smem::k_tile::dim3, knob::SWIZZLE>;
using KvTile = ChunkTile<BLOCK_N, ROW_CHUNKS, smem::k_tile::dim3, knob::SWIZZLE>;
using KvCopier = TileCopier<KvTile, GROUP_THREADS>;

static_assert(smem::k_tile::dim0 == GROUPS && smem::k_tile::dim1 == STAGES && smem::k_tile::dim2 == BLOCK_N,
              "as the manifest lays it out");
static_assert(smem::v_tile::bytes == smem::k_tile::bytes && smem::v_tile::dim3 == smem::k_tile::dim3, "V's like K's");

// FP8 weights are shifted up so that they use the format's range: the largest is 2^8, of at most 448.
constexpr float WEIGHT_SHIFT = FP8_WEIGHTS ? 8.0f : 0.0f;
// How far, in powers of two, scores may exceed the row's maximum before O is rescaled. fp16 has room for 2^15; FP8 has
// used all of its own.
constexpr float SLACK = FP8_WEIGHTS ? 0.0f : 8.0f;
// FP8 weights: each step's products are summed apart and added to O in fp32, where there are registers to spare.
constexpr bool SUMS_APART = FP8_WEIGHTS && HEAD_DIM <= 128;
// FP8 weights: of every 64 keys 16 are refined, multiplied once more by what rounding took from their weights. All of P
// in three bits would be an error of up to 0.0265 (relative L2); sqrt(3/4) of that is below 0.024.
__device__ constexpr bool has_refined_keys(int step) { return FP8_WEIGHTS && step % 2 == 0; }  // its first 16
// fp16 on Hopper: a row's sum of weights is one more column of P V, products with ones: an eighth of the instructions that
// adding them up takes, and every lane has all of it. There instructions are what is short; elsewhere the tensor cores are.
// It sums what the products use, rounded; in bf16 the rounding would show.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
constexpr bool SUMS_BY_PRODUCT = axis::dtype == axis::Dtype::fp16;
#else
constexpr bool SUMS_BY_PRODUCT = false;
#endif
constexpr unsigned TWO_ONES = 0x3c003c00;
// The origin of a row before its first key. Finite, because -inf - -inf is NaN, and below every exponent that counts.
constexpr float NOTHING_SEEN = -1e30f;

// ---- where things are ----

__device__ int lane() { return threadIdx.x % 32; }
__device__ int warp() { return threadIdx.x / 32; }
__device__ int own_group() { return SPLIT ? ptx::same_in_warp(warp() / GROUP_WARPS) : 0; }
__device__ int group_thread() { return threadIdx.x % GROUP_THREADS; }
__device__ int first_row() { return warp() % GROUP_WARPS * (STRIPS * 16); }  // of the warp, in the work tile
__device__ int quad_lane() { return lane() % 4; }
// The lane's rows in the work tile: half 0 is top, half 1 bottom.
__device__ int own_row(int strip, int half) { return first_row() + strip * 16 + half * 8 + lane() / 4; }

__device__ unsigned in_shared(unsigned offset) { return ptx::shared_address(shared_memory) + offset; }
__device__ QTile q_tile() { return {in_shared(smem::q_tile::offset)}; }
// What lane l of another group leaves for lane l of the first, which holds the same rows and columns: of each strip the
// output's blocks and, as the last, origins and sums.
__device__ float4* left_by(int of_group, int strip) {  // [OUTPUT_BLOCKS + 1], 32 apart
    const int strip_of_block = warp() % GROUP_WARPS * STRIPS + strip;
    return reinterpret_cast<float4*>(shared_memory + smem::left_rows::offset) +
           ((of_group - 1) * (BLOCK_M / 16) + strip_of_block) * ((OUTPUT_BLOCKS + 1) * 32) + lane();
}
// Barriers that complete a phase when a tile has come from all who copy it: a group's K or V, or the queries (and with
// them everyone's first K).
constexpr int TILE_BARRIERS = GROUPS * 2 * STAGES;
__device__ unsigned barrier(int index) { return in_shared(smem::landed::offset + index * 8); }
__device__ unsigned query_barrier() { return barrier(TILE_BARRIERS); }

// The others see the barriers after they have met this thread.
__device__ void init_barriers() {
    if (threadIdx.x != 0) return;
#pragma unroll
    for (int i = 0; i < TILE_BARRIERS; ++i) ptx::mbarrier_init(barrier(i), GROUP_THREADS);
    ptx::mbarrier_init(query_barrier(), THREADS);
}

// All warps of a group meet, and no others.
__device__ void group_sync(int group) {
    if constexpr (!SPLIT) {
        __syncthreads();
    } else if constexpr (GROUP_WARPS == 1) {
        __syncwarp();
    } else {
        ptx::named_barrier_sync<GROUP_THREADS>(1 + group);
    }
}

// ---- the work ----

// BLOCK_M query rows of one head and the steps of BLOCK_N keys that any of them sees.
struct WorkTile {
    int batch;
    int head;
    int kv_head;
    int first_query;
    int steps;
    int masked;  // of them, at the end: some row does not see every key

    __device__ WorkTile(const Arguments& args, int query_block, int head_, int batch_)
        : batch(batch_), head(head_), kv_head(attention::kv_head_of(args, head)),
          first_query(query_block * BLOCK_M) {
        const int last_query = min(first_query + BLOCK_M, args.seq_q) - 1;
        const int seen_by_all = max(attention::visible_keys(args, first_query), 0);
        const int seen_by_any = max(attention::visible_keys(args, last_query), 0);
        steps = (seen_by_any + BLOCK_N - 1) / BLOCK_N;
        masked = steps - seen_by_all / BLOCK_N;
    }
};

__device__ int query_blocks(const Arguments& args) { return (args.seq_q + BLOCK_M - 1) / BLOCK_M; }

// Calls `visit` with the block's work tiles, its own one or every PERSISTENT-th, and whether it is the first. Neighbours
// share a head, so its K and V stay in L2; the last query block, the longest under a causal mask, comes first.
template <typename Visit>
__device__ void for_each_work_tile(const Arguments& args, Visit visit) {
    if constexpr (PERSISTENT) {
        const int blocks = query_blocks(args);
        for (int index = blockIdx.x; index < blocks * args.heads * args.batch; index += knob::PERSISTENT) {
            if (index >= knob::PERSISTENT) __syncthreads();  // the work tile before is done with every buffer
            const int head = index / blocks;
            const WorkTile work(args, blocks - 1 - index % blocks, head % args.heads, head / args.heads);
            visit(work, index < knob::PERSISTENT);
        }
    } else {
        visit(WorkTile(args, gridDim.x - 1 - blockIdx.x, blockIdx.y, blockIdx.z), true);
    }
}

// The same work tile once more, for the way out: computed anew where it can be, which costs less than registers that
// hold it through the loop.
__device__ WorkTile again(const Arguments& args, const WorkTile& work) {
    if constexpr (PERSISTENT) {
        return work;
    } else {
        const int3 index = ptx::block_index_again();
        return WorkTile(args, gridDim.x - 1 - index.x, index.y, index.z);
    }
}

// What a group's own t-th step is among the work tile's, and how many it has of the last `count`.
__device__ int step_of(const WorkTile& work, int group, int t) { return work.steps - 1 - (t * GROUPS + group); }
__device__ int share_of(int count, int group) { return (count - group + GROUPS - 1) / GROUPS; }

// ---- Q, the left factor of the scores ----

__device__ const char* head_bytes(const void* tensor, const attention::Strides& strides, int batch, int head) {
    return reinterpret_cast<const char*>(
        attention::head_start(static_cast<const Element*>(tensor), strides, batch, head));
}

__device__ int row_bytes(const attention::Strides& strides) {
    return strides.sequence * sizeof(Element);
}

// Copied to shared memory, and from there read into registers once, or again at every step: registers for O instead.
struct Queries {
    LaneRow<QTile> place{q_tile(), first_row() + lane() % 16, lane() / 16};
    unsigned words[QUERIES_IN_REGISTERS ? STRIPS : 1][DEPTH_STEPS][4];

    // All threads of the block copy.
    __device__ static void start(const Arguments& args, const WorkTile& work) {
        const TileCopier<QTile, THREADS> copier(head_bytes(args.q, args.q_strides, work.batch, work.head),
                                                row_bytes(args.q_strides), work.first_query, threadIdx.x);
        copier.template copy<false>(q_tile(), args.seq_q - work.first_query, threadIdx.x);
    }
    // They are there.
    __device__ void begin() {
        if constexpr (QUERIES_IN_REGISTERS) {
#pragma unroll
            for (int strip = 0; strip < STRIPS; ++strip) {
#pragma unroll
                for (int depth = 0; depth < DEPTH_STEPS; ++depth) read(words[strip][depth], strip, depth);
            }
        }
    }
    __device__ void read(unsigned (&a)[4], int strip, int depth) const {
        if (LAST_DEPTH_IS_HALF && depth == DEPTH_STEPS - 1) {
            ptx::load_matrix_x4(a, place.at_single(strip * 16, 2 * depth));
        } else {
            ptx::load_matrix_x4(a, place.at(strip * 16, 2 * depth));
        }
    }
    __device__ void fragment(unsigned (&a)[STRIPS][4], int depth) const {
#pragma unroll
        for (int strip = 0; strip < STRIPS; ++strip) {
            if constexpr (QUERIES_IN_REGISTERS) {
#pragma unroll
                for (int i = 0; i < 4; ++i) a[strip][i] = words[strip][depth][i];
            } else {
                read(a[strip], strip, depth);
            }
        }
    }
};

// ---- S = Q K^T ----

using Scores = float[STRIPS][SCORE_BLOCKS][4];

template <int PAIRS>
__device__ void clear_scores(Scores& s, int first_pair) {
#pragma unroll
    for (int strip = 0; strip < STRIPS; ++strip) {
#pragma unroll
        for (int i = 0; i < PAIRS * 8; ++i) s[strip][2 * first_pair + i / 4][i % 4] = 0.0f;
    }
}

// Adds one step of the depth to the scores of PAIRS * 16 keys.
template <int PAIRS>
__device__ void add_scores(Scores& s, int first_pair, const Queries& queries, KvTile k, int depth) {
    const LaneRow<KvTile> place(k, lane() / 16 * 8 + lane() % 8, lane() / 8 % 2);
    const bool half = LAST_DEPTH_IS_HALF && depth == DEPTH_STEPS - 1;
    unsigned a[STRIPS][4];
    queries.fragment(a, depth);
#pragma unroll
    for (int pair = first_pair; pair < first_pair + PAIRS; ++pair) {
        unsigned b[4];
        ptx::load_matrix_x4(b, half ? place.at_single(16 * pair, 2 * depth) : place.at(16 * pair, 2 * depth));
#pragma unroll
        for (int strip = 0; strip < STRIPS; ++strip) {
            if (half) {
                ptx::mma_16x8x16_e4m3(s[strip][2 * pair], a[strip][0], a[strip][1], b[0]);
                ptx::mma_16x8x16_e4m3(s[strip][2 * pair + 1], a[strip][0], a[strip][1], b[2]);
            } else {
                Number::multiply_add(s[strip][2 * pair], a[strip], b[0], b[1]);
                Number::multiply_add(s[strip][2 * pair + 1], a[strip], b[2], b[3]);
            }
        }
    }
}

// The depth is the outer loop: every product of a depth step is independent of the others.
__device__ void scores_of(Scores& s, const Queries& queries, KvTile k) {
    clear_scores<SCORE_BLOCKS / 2>(s, 0);
#pragma unroll
    for (int depth = 0; depth < DEPTH_STEPS; ++depth) add_scores<SCORE_BLOCKS / 2>(s, 0, queries, k, depth);
}

// ---- softmax and P V ----

// A register of two or four neighbours in a fragment, from fp32.
__device__ unsigned pack(float low, float high, const __half*) {
    const __half2 pair = __floats2half2_rn(low, high);
    return reinterpret_cast<const unsigned&>(pair);
}
__device__ unsigned pack(float low, float high, const __nv_bfloat16*) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<const unsigned&>(pair);
}

// fp16 weights times FP8 values of 16 keys, of which a lane's word has keys 2q, 2q+1, 2q+8 and 2q+9.
__device__ void multiply_unpacked(float (&d)[4], const unsigned (&a)[4], unsigned codes) {
    const __half2 low = e4m3::decode2(static_cast<unsigned short>(codes));
    const __half2 high = e4m3::decode2(static_cast<unsigned short>(codes >> 16));
    ptx::mma_16x8x16(d, a, reinterpret_cast<const unsigned&>(low), reinterpret_cast<const unsigned&>(high));
}

// P of one step, as left factors. FP8 weights: and behind it, as words 0 and 1, what the refined keys lost by rounding.
using Weights = unsigned[KEY_STEPS + (FP8_WEIGHTS ? (KEY_STEPS + 1) / 2 : 0)][STRIPS][4];
__device__ constexpr int lost_of(int step) { return KEY_STEPS + step / 2; }

// One warp's rows on their way: output and softmax so far.
struct Rows {
    const float scale;            // raw scores to base-2 exponents
    float output[STRIPS][OUTPUT_BLOCKS][4];
    float origin[STRIPS][2];      // what is subtracted from exponents: the maximum so far, or a little less
    float sum[STRIPS][2];         // of the lane's own columns; SUMS_BY_PRODUCT: complete, in the end
    float product[STRIPS][4];     // SUMS_BY_PRODUCT: of the weights with ones
    float correction[STRIPS][2];  // SUMS_APART: what the output is multiplied by when the next products are added

    __device__ explicit Rows(float scale_) : scale(scale_) {
#pragma unroll
        for (int i = 0; i < STRIPS * OUTPUT_BLOCKS * 4; ++i)
            output[i / 4 / OUTPUT_BLOCKS][i / 4 % OUTPUT_BLOCKS][i % 4] = 0.0f;
#pragma unroll
        for (int i = 0; i < STRIPS * 2; ++i) {
            origin[i / 2][i % 2] = NOTHING_SEEN;
            sum[i / 2][i % 2] = 0.0f;
        }
#pragma unroll
        for (int i = 0; i < STRIPS * 4; ++i) product[i / 4][i % 4] = 0.0f;
        correction_is_one();
    }

    // Moves a row's origin up where the scores have outgrown it. Rare once a row has seen some keys, so the lanes of a
    // row look at each other's scores only if some lane of the warp asks for it.
    __device__ void raise_origin(const Scores& s, bool first_step) {
        float largest[STRIPS][2];
        bool outgrown = false;
#pragma unroll
        for (int strip = 0; strip < STRIPS; ++strip) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                float x = fmaxf(s[strip][0][2 * half], s[strip][0][2 * half + 1]);
#pragma unroll
                for (int block = 1; block < SCORE_BLOCKS; ++block)
                    x = fmaxf(x, fmaxf(s[strip][block][2 * half], s[strip][block][2 * half + 1]));
                largest[strip][half] = fmaf(x, scale, -WEIGHT_SHIFT);
                outgrown |= largest[strip][half] > origin[strip][half] + SLACK;
            }
        }
        if (!__any_sync(0xffffffffu, outgrown)) {
            if constexpr (SUMS_APART) correction_is_one();
            return;
        }
#pragma unroll
        for (int i = 0; i < STRIPS * 2; ++i) {
            float& from = origin[i / 2][i % 2];
            const float to = fmaxf(from, group_max<4>(largest[i / 2][i % 2]));
            correction[i / 2][i % 2] = ptx::exp2_approx(from - to);
            sum[i / 2][i % 2] *= correction[i / 2][i % 2];
            from = to;
        }
        if (!SUMS_APART && !first_step) {
#pragma unroll
            for (int i = 0; i < STRIPS * OUTPUT_BLOCKS * 4; ++i) {
                const int strip = i / 4 / OUTPUT_BLOCKS, block = i / 4 % OUTPUT_BLOCKS;
                output[strip][block][i % 4] *= correction[strip][i % 4 / 2];
            }
#pragma unroll
            for (int i = 0; i < STRIPS * 4; ++i) product[i / 4][i % 4] *= correction[i / 4][i % 4 / 2];
        }
    }
    __device__ void correction_is_one() {
#pragma unroll
        for (int i = 0; i < STRIPS * 2; ++i) correction[i / 2][i % 2] = 1.0f;
    }

    __device__ float weight(float score, int strip, int half, bool polynomial) {
        const float x = fmaf(score, scale, -origin[strip][half]);
        return polynomial ? exp2_cubic(x) : ptx::exp2_approx(x);
    }

    // Two neighbouring scores become weights and enter the row's sum.
    __device__ float2 weigh(const Scores& s, int strip, int block, int half, bool polynomial) {
        const float2 w = make_float2(weight(s[strip][block][2 * half], strip, half, polynomial),
                                     weight(s[strip][block][2 * half + 1], strip, half, polynomial));
        if constexpr (!SUMS_BY_PRODUCT) sum[strip][half] += w.x + w.y;
        return w;
    }

    // The n-th of the WORDS_PER_STEP registers of P for one step of the tensor cores. FP8: two pairs of weights, of keys
    // 2q, 2q+1 and 2q+8, 2q+9.
    static constexpr int WORDS_PER_STEP = STRIPS * 4;
    __device__ void weigh(Weights& p, const Scores& s, int step, int n) {
        const int strip = n / 4, word = n % 4, half = word % 2, block = step * (STEP_KEYS / 8) + word / 2 * (STEP_KEYS / 16);
        const bool polynomial = word < POLYNOMIALS;
        const float2 w = weigh(s, strip, block, half, polynomial);
        if constexpr (FP8_WEIGHTS) {
            const float2 w8 = weigh(s, strip, block + 1, half, polynomial);
            p[step][strip][word] = e4m3::encode4(w.x, w.y, w8.x, w8.y);
            if (has_refined_keys(step) && word < 2)
                p[lost_of(step)][strip][word] = e4m3::encode4_lost(w.x, w.y, w8.x, w8.y, p[step][strip][word]);
        } else {
            p[step][strip][word] = pack(w.x, w.y, static_cast<const Output*>(nullptr));
        }
    }
    // Part i of n of a step's registers.
    __device__ void weigh_part(Weights& p, const Scores& s, int step, int i, int n) {
#pragma unroll
        for (int word = i * WORDS_PER_STEP / n; word < (i + 1) * WORDS_PER_STEP / n; ++word) weigh(p, s, step, word);
    }

    // fp16 and bf16: adds the values of 16 keys to a pair of O's blocks.
    __device__ void add_columns(const Weights& p, KvTile v, int step, int pair) {
        const LaneRow<KvTile> place(v, lane() % 16, lane() / 16);
        unsigned b[4];
        ptx::load_matrix_x4_transposed(b, place.at(16 * step, 2 * pair));
#pragma unroll
        for (int strip = 0; strip < STRIPS; ++strip) {
            if (SUMS_BY_PRODUCT && pair == 0) Number::multiply_add(product[strip], p[step][strip], TWO_ONES, TWO_ONES);
            Number::multiply_add(output[strip][2 * pair], p[step][strip], b[0], b[1]);
            Number::multiply_add(output[strip][2 * pair + 1], p[step][strip], b[2], b[3]);
        }
    }

    // fp16 and bf16: O += P V. The weights of the next 16 keys are computed between the products of these, a register at
    // a time: exponentials and tensor cores are different pipes.
    __device__ void add_values(Weights& p, const Scores& s, KvTile v) {
        constexpr int PAIRS = OUTPUT_BLOCKS / 2;
        weigh_part(p, s, 0, 0, 1);
#pragma unroll
        for (int step = 0; step < KEY_STEPS; ++step) {
#pragma unroll
            for (int pair = 0; pair < PAIRS; ++pair) {
                add_columns(p, v, step, pair);
                if (step + 1 < KEY_STEPS) weigh_part(p, s, step + 1, pair, PAIRS);
            }
        }
    }

    // FP8: O = correction O + P V, with what P lost. A lane's registers of a transposed load of 32 keys x 16 bytes hold
    // keys 2q, 2q+1 (+8, +16, +24) of columns 2r and 2r+1; two byte permutations bring the even and the odd column of
    // those same keys together. So the blocks of O have the even and the odd columns of a chunk. The products of a step
    // are summed apart, because the FP8 tensor cores' sums keep about 13 bits, and added to O in fp32. What P lost is
    // multiplied first: after the rest it makes the compiler spill at head_dim 256.
    __device__ void add_values_fp8(const Weights& p, KvTile v) {
        const LaneRow<KvTile> place(v, lane(), 0);
#pragma unroll
        for (int chunk = 0; chunk < ROW_CHUNKS; ++chunk) {
            float even[STRIPS][4] = {}, odd[STRIPS][4] = {};
#pragma unroll
            for (int load = 0; load < BLOCK_N / 32; ++load) {
                unsigned r[4];
                ptx::load_matrix_x4_transposed(r, place.at(32 * load, chunk));
                const unsigned b[4] = {__byte_perm(r[0], r[1], 0x6420), __byte_perm(r[2], r[3], 0x6420),
                                       __byte_perm(r[0], r[1], 0x7531), __byte_perm(r[2], r[3], 0x7531)};
#pragma unroll
                for (int strip = 0; strip < STRIPS; ++strip) {
                    float(&to_even)[4] = SUMS_APART ? even[strip] : output[strip][2 * chunk];
                    float(&to_odd)[4] = SUMS_APART ? odd[strip] : output[strip][2 * chunk + 1];
                    if constexpr (FP8_WEIGHTS) {
                        if (has_refined_keys(load)) {
                            const unsigned(&lost)[4] = p[lost_of(load)][strip];
                            ptx::mma_16x8x16_e4m3(to_even, lost[0], lost[1], b[0]);
                            ptx::mma_16x8x16_e4m3(to_odd, lost[0], lost[1], b[2]);
                        }
                        Number::multiply_add(to_even, p[load][strip], b[0], b[1]);
                        Number::multiply_add(to_odd, p[load][strip], b[2], b[3]);
                    } else {
#pragma unroll
                        for (int i = 0; i < 4; ++i)
                            multiply_unpacked(i < 2 ? to_even : to_odd, p[2 * load + i % 2][strip], b[i]);
                    }
                }
            }
            if constexpr (SUMS_APART) {
#pragma unroll
                for (int i = 0; i < STRIPS * 4; ++i) {
                    const int strip = i / 4, e = i % 4;
                    float &o_even = output[strip][2 * chunk][e], &o_odd = output[strip][2 * chunk + 1][e];
                    o_even = fmaf(o_even, correction[strip][e / 2], even[strip][e]);
                    o_odd = fmaf(o_odd, correction[strip][e / 2], odd[strip][e]);
                }
            }
        }
    }

    // Turns the scores into weights and adds the weighted values.
    __device__ void add_weighted(const Scores& s, KvTile v) {
        Weights p;
        if constexpr (FP8) {
#pragma unroll
            for (int step = 0; step < KEY_STEPS; ++step) weigh_part(p, s, step, 0, 1);
            add_values_fp8(p, v);
        } else {
            add_values(p, s, v);
        }
    }

    // Turns the scores into weights, adds the weighted values, and leaves the scores of the next step in their place: what
    // is between the products of 16 keys are the exponentials of the next 16.
    __device__ void add_weighted_and_look_ahead(Scores& s, KvTile v, const Queries& queries, KvTile next) {
        constexpr int PAIRS = STEP_KEYS / 16;
        Weights p;
        weigh_part(p, s, 0, 0, 1);
#pragma unroll
        for (int step = 0; step < KEY_STEPS; ++step) {
            clear_scores<PAIRS>(s, step * PAIRS);
#pragma unroll
            for (int depth = 0; depth < DEPTH_STEPS; ++depth) {
                if (step + 1 < KEY_STEPS) weigh_part(p, s, step + 1, depth, DEPTH_STEPS);
                add_scores<PAIRS>(s, step * PAIRS, queries, next, depth);
                if constexpr (!FP8) add_columns(p, v, step, depth);
            }
        }
        if constexpr (FP8) add_values_fp8(p, v);
    }

    // ---- the outputs in pairs of neighbouring columns, whichever blocks they are in ----

    static constexpr int WORDS = HEAD_DIM / 8;
    __device__ static int column_of(int word) {
        return FP8 ? word / 2 * 16 + quad_lane() * 4 + word % 2 * 2 : word * 8 + quad_lane() * 2;
    }
    __device__ float2 word_of(int strip, int half, int word) const {
        if constexpr (FP8) {
            const int block = word / 2 * 2, i = 2 * half + word % 2;
            return make_float2(output[strip][block][i], output[strip][block + 1][i]);
        } else {
            return make_float2(output[strip][word][2 * half], output[strip][word][2 * half + 1]);
        }
    }

    __device__ void scale_output(int strip, const float (&factor)[2]) {
#pragma unroll
        for (int i = 0; i < OUTPUT_BLOCKS * 4; ++i) output[strip][i / 4][i % 4] *= factor[i % 4 / 2];
    }

    // Every lane of a row gets its sum. A row that has seen nothing has sum 0.
    __device__ void complete_sums() {
#pragma unroll
        for (int i = 0; i < STRIPS * 2; ++i)
            sum[i / 2][i % 2] = SUMS_BY_PRODUCT ? product[i / 2][i % 2 * 2] : group_sum<4>(sum[i / 2][i % 2]);
    }
};

// Hides the keys a row does not see; `first_key` is the step's. What the lane's rows see differs by the distance of the
// rows alone, up to the end of the keys.
__device__ void hide(Scores& s, const Arguments& args, const WorkTile& work, int first_key) {
    const int to_end = args.seq_k - first_key - quad_lane() * 2;
    const int top_row = args.mask == attention::Mask::none
                            ? to_end
                            : work.first_query + own_row(0, 0) + args.diagonal + 1 - first_key - quad_lane() * 2;
#pragma unroll
    for (int strip = 0; strip < STRIPS; ++strip) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int visible = min(to_end, top_row + strip * 16 + half * 8);
#pragma unroll
            for (int i = 0; i < SCORE_BLOCKS * 2; ++i) {
                float& score = s[strip][i / 2][2 * half + i % 2];
                if (i / 2 * 8 + i % 2 >= visible) score = negative_infinity();
            }
        }
    }
}

// ---- the way out ----

__device__ Output* output_row(const Arguments& args, const WorkTile& work, int row) {
    return attention::head_start(static_cast<Output*>(args.o), args.o_strides, work.batch, work.head) +
           static_cast<long long>(work.first_query + row) * args.o_strides.sequence;
}

__device__ void store_lse(const Arguments& args, const WorkTile& work, const Rows& rows) {
#pragma unroll
    for (int i = 0; i < STRIPS * 2; ++i) {
        const int strip = i / 2, half = i % 2, query = work.first_query + own_row(strip, half);
        if (quad_lane() == 0 && query < args.seq_q)
            args.lse[attention::row_index(args, work.batch, work.head, query)] =
                log_sum_exp(rows.origin[strip][half], rows.sum[strip][half]);
    }
}

// Among the four lanes of a row: each has words of every chunk and gets all words of one chunk.
__device__ void exchange(unsigned& keep_if_even, unsigned& keep_if_odd, int distance) {
    const bool odd = lane() & distance;
    const unsigned received = __shfl_xor_sync(0xffffffffu, odd ? keep_if_even : keep_if_odd, distance);
    (odd ? keep_if_even : keep_if_odd) = received;
}

// Four words of a lane, of which columns column_of(word + 0..3) are known, become eight neighbouring columns: the words
// in order, and the first column.
__device__ int gather(unsigned (&w)[4], int word) {
    if constexpr (FP8) {  // words 0, 1 of two lanes are one chunk, words 2, 3 another
        exchange(w[0], w[2], 1);
        exchange(w[1], w[3], 1);
        return (word / 2 + lane() % 2) * 16 + quad_lane() / 2 * 8;
    } else {  // word i of the four lanes is one chunk
        exchange(w[0], w[1], 1);
        exchange(w[2], w[3], 1);
        exchange(w[0], w[2], 2);
        exchange(w[1], w[3], 2);
        return (word + quad_lane()) * 8;
    }
}

// Rows straight from registers to global memory, 16 bytes at a time.
__device__ void store_rows(const Arguments& args, const WorkTile& work, const Rows& rows) {
    constexpr int WORDS = Rows::WORDS;
    const Output* tag = nullptr;
#pragma unroll
    for (int i = 0; i < STRIPS * 2; ++i) {
        const int strip = i / 2, half = i % 2, row = own_row(strip, half);
        const bool exists = work.first_query + row < args.seq_q;
        Output* o = output_row(args, work, row);
        unsigned words[WORDS];
#pragma unroll
        for (int word = 0; word < WORDS; ++word) {
            const float2 x = rows.word_of(strip, half, word);
            words[word] = pack(x.x, x.y, tag);
        }
#pragma unroll
        for (int word = 0; word + 4 <= WORDS; word += 4) {
            unsigned(&w)[4] = reinterpret_cast<unsigned(&)[4]>(words[word]);
            const int column = gather(w, word);
            if (exists) ptx::store16(o + column, w);
        }
#pragma unroll
        for (int word = WORDS / 4 * 4; word < WORDS; ++word) {
            if (exists) *reinterpret_cast<unsigned*>(o + Rows::column_of(word)) = words[word];
        }
    }
}

// `normaliser` of common/softmax.cuh without a division's slow path, which is code to fetch at the end of every launch.
__device__ float normal(float sum, float v_scale) {
    return sum > 0.0f ? v_scale * ptx::reciprocal_approx(sum) : 0.0f;
}

// Divides the rows by their sums. With several groups the others leave theirs in shared memory, and the first adds them to
// its own; a warp of it waits for the warps with the same rows only. True for who has the rows then.
__device__ bool complete(Rows& rows, int group, float v_scale) {
    rows.complete_sums();
    if constexpr (!SPLIT) {
#pragma unroll
        for (int strip = 0; strip < STRIPS; ++strip) {
            const float factor[2] = {normal(rows.sum[strip][0], v_scale), normal(rows.sum[strip][1], v_scale)};
            rows.scale_output(strip, factor);
        }
        return true;
    }
    const int meeting = 1 + GROUPS + warp() % GROUP_WARPS;
    if (group > 0) {
#pragma unroll
        for (int strip = 0; strip < STRIPS; ++strip) {
            float4* left = left_by(group, strip);
#pragma unroll
            for (int block = 0; block < OUTPUT_BLOCKS; ++block) {
                const float(&o)[4] = rows.output[strip][block];
                left[block * 32] = make_float4(o[0], o[1], o[2], o[3]);
            }
            left[OUTPUT_BLOCKS * 32] =
                make_float4(rows.origin[strip][0], rows.origin[strip][1], rows.sum[strip][0], rows.sum[strip][1]);
        }
        ptx::named_barrier_arrive<GROUPS * 32>(meeting);
        return false;
    }
    ptx::named_barrier_sync<GROUPS * 32>(meeting);
#pragma unroll
    for (int strip = 0; strip < STRIPS; ++strip) {
        float origin[GROUPS][2] = {{rows.origin[strip][0], rows.origin[strip][1]}};
        float sum[GROUPS][2] = {{rows.sum[strip][0], rows.sum[strip][1]}};
#pragma unroll
        for (int g = 1; g < GROUPS; ++g) {
            const float4 theirs = left_by(g, strip)[OUTPUT_BLOCKS * 32];
            origin[g][0] = theirs.x;
            origin[g][1] = theirs.y;
            sum[g][0] = theirs.z;
            sum[g][1] = theirs.w;
        }
        // Of each group what its rows are multiplied by: to a common origin, and by the sum of all.
        float factor[GROUPS][2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float highest = origin[0][half], total = 0.0f;
#pragma unroll
            for (int g = 1; g < GROUPS; ++g) highest = fmaxf(highest, origin[g][half]);
#pragma unroll
            for (int g = 0; g < GROUPS; ++g) {
                factor[g][half] = ptx::exp2_approx(origin[g][half] - highest);
                total = fmaf(factor[g][half], sum[g][half], total);
            }
#pragma unroll
            for (int g = 0; g < GROUPS; ++g) factor[g][half] *= normal(total, v_scale);
            rows.origin[strip][half] = highest;
            rows.sum[strip][half] = total;
        }
        rows.scale_output(strip, factor[0]);
#pragma unroll
        for (int g = 1; g < GROUPS; ++g) {
#pragma unroll
            for (int block = 0; block < OUTPUT_BLOCKS; ++block) {
                const float4 x = left_by(g, strip)[block * 32];
                float(&o)[4] = rows.output[strip][block];
                o[0] = fmaf(factor[g][0], x.x, o[0]);
                o[1] = fmaf(factor[g][0], x.y, o[1]);
                o[2] = fmaf(factor[g][1], x.z, o[2]);
                o[3] = fmaf(factor[g][1], x.w, o[3]);
            }
        }
    }
    return true;
}

// ---- the loop ----

// A bit for each barrier of the group: the phase its next tile completes. Outlives a work tile, as the barriers do.
using Phases = unsigned;

// One group's K and V: which step's tiles are where, the copies that bring them, and who may have them.
struct Ring {
    Phases& phases;
    const int group;
    const int steps;  // of this group
    KvCopier k, v;    // at the group's next step

    __device__ Ring(const Arguments& args, const WorkTile& work, int group_, Phases& phases_)
        : phases(phases_), group(group_), steps(share_of(work.steps, group)),
          k(head_bytes(args.k, args.k_strides, work.batch, work.kv_head), row_bytes(args.k_strides),
            step_of(work, group, 0) * BLOCK_N, group_thread()),
          v(head_bytes(args.v, args.v_strides, work.batch, work.kv_head), row_bytes(args.v_strides),
            step_of(work, group, 0) * BLOCK_N, group_thread()) {}

    __device__ KvTile k_tile(int t) const { return tile(smem::k_tile::offset, t); }
    __device__ KvTile v_tile(int t) const { return tile(smem::v_tile::offset, t); }
    __device__ KvTile tile(unsigned ring, int t) const {
        return {in_shared(ring) + (group * STAGES + t % STAGES) * KvTile::BYTES};
    }
    __device__ unsigned k_barrier(int t) const { return barrier(group * 2 * STAGES + t % STAGES); }
    __device__ unsigned v_barrier(int t) const { return barrier((group * 2 + 1) * STAGES + t % STAGES); }

    // The group's first step may be the work tile's last and reach beyond the keys: `rows` of it exist.
    __device__ void copy_first_k(int rows) { copy_first(k, k_tile(0), rows); }
    __device__ void copy_first_v(int rows) { copy_first(v, v_tile(0), rows); }
    __device__ void copy_first(KvCopier& copier, KvTile tile, int rows) const {
        copier.template copy<false>(tile, rows, group_thread());
        copier.move(-GROUPS * BLOCK_N);
    }
    __device__ void start_k(int t) { start(k, k_tile(t), k_barrier(t), t); }
    __device__ void start_v(int t) { start(v, v_tile(t), v_barrier(t), t); }
    __device__ void start(KvCopier& copier, KvTile tile, unsigned barrier, int t) const {
        if (t >= steps) return;
        copier.template copy<true>(tile, BLOCK_N, group_thread());
        copier.move(-GROUPS * BLOCK_N);
        ptx::mbarrier_arrive_after_copies(barrier);
    }

    // Waits for a tile, from all threads of the group.
    __device__ void await_k(int t) const { await(k_barrier(t), t % STAGES); }
    __device__ void await_v(int t) const { await(v_barrier(t), STAGES + t % STAGES); }
    __device__ void await(unsigned barrier, int bit) const {
        ptx::mbarrier_wait(barrier, phases >> bit & 1);
        phases ^= 1u << bit;
    }

    // Steps whose tiles are followed by others in their slots; after them nobody has to wait for anybody.
    __device__ int followed() const { return max(steps - STAGES, 0); }
    // Everyone is done with this step's K, or V: on to the one that takes its place.
    __device__ void replace_k(int t) {
        group_sync(group);
        start_k(t + STAGES);
    }
    __device__ void replace_v(int t) {
        group_sync(group);
        start_v(t + STAGES);
    }
};

// The group's steps [from, to) in its own counting. FOLLOWED: whether they are, or whether that is looked up at each.
enum class Followed { no, yes, perhaps };
template <bool MASKED, Followed FOLLOWED>
__device__ void attend(const Arguments& args, const WorkTile& work, Ring& ring, const Queries& queries, Rows& rows,
                       int from, int to) {
#pragma unroll 1
    for (int t = from; t < to; ++t) {
        const bool followed = FOLLOWED == Followed::perhaps ? t < ring.followed() : FOLLOWED == Followed::yes;
        Scores s;
        ring.await_k(t);
        scores_of(s, queries, ring.k_tile(t));
        if constexpr (MASKED) hide(s, args, work, step_of(work, ring.group, t) * BLOCK_N);
        rows.raise_origin(s, t == 0);
        if (followed) ring.replace_k(t);
        ring.await_v(t);
        rows.add_weighted(s, ring.v_tile(t));
        if (followed) ring.replace_v(t);
    }
}

// The same with the scores computed one step ahead: those of step `from` are in s, and when it ends those of step `to`.
template <bool FOLLOWED>
__device__ void attend_ahead(Scores& s, const Arguments& args, const WorkTile& work, Ring& ring, const Queries& queries,
                             Rows& rows, int masked, int from, int to) {
#pragma unroll 1
    for (int t = from; t < to; ++t) {
        ring.await_k(t + 1);
        ring.await_v(t);
        rows.add_weighted_and_look_ahead(s, ring.v_tile(t), queries, ring.k_tile(t + 1));
        if (t + 1 < masked) hide(s, args, work, step_of(work, ring.group, t + 1) * BLOCK_N);
        rows.raise_origin(s, false);
        if constexpr (FOLLOWED) {
            ring.replace_v(t);
            ring.start_k(t + 1 + STAGES);  // everyone is done with that one too
        }
    }
}

// All of the group's steps.
__device__ void attend_to_all(const Arguments& args, const WorkTile& work, Ring& ring, const Queries& queries, Rows& rows) {
    const int masked = share_of(work.masked, ring.group), followed = ring.followed();
    if constexpr (LOOK_AHEAD) {
        if (ring.steps == 0) return;
        const int last = ring.steps - 1;
        Scores s;
        ring.await_k(0);
        scores_of(s, queries, ring.k_tile(0));
        if (masked > 0) hide(s, args, work, step_of(work, ring.group, 0) * BLOCK_N);
        rows.raise_origin(s, true);
        if (followed > 0) ring.replace_k(0);
        attend_ahead<true>(s, args, work, ring, queries, rows, masked, 0, followed);
        attend_ahead<false>(s, args, work, ring, queries, rows, masked, followed, last);
        ring.await_v(last);
        rows.add_weighted(s, ring.v_tile(last));
    } else {
        attend<true, Followed::perhaps>(args, work, ring, queries, rows, 0, masked);
        attend<false, Followed::yes>(args, work, ring, queries, rows, masked, followed);
        attend<false, Followed::no>(args, work, ring, queries, rows, max(masked, followed), ring.steps);
    }
}

// Only FP8 tensors carry scales.
__device__ float code_scale(const float* scales, int heads, int batch, int head) {
    return FP8 ? attention::head_scale(scales, heads, batch, head) : 1.0f;
}

__device__ void compute(const Arguments& args, const WorkTile& work, bool first, Phases& phases) {
    const int group = own_group();
    Ring ring(args, work, group, phases);
    const int rows_of_first = args.seq_k - step_of(work, group, 0) * BLOCK_N;
    Queries::start(args, work);
    if (ring.steps > 0) ring.copy_first_k(rows_of_first);
    if (first) {
        init_barriers();
        __syncthreads();
    }
    ptx::mbarrier_arrive_after_copies(query_barrier());
    if (ring.steps > 0) {
        ptx::mbarrier_arrive_after_copies(ring.k_barrier(0));
        ring.copy_first_v(rows_of_first);
        ptx::mbarrier_arrive_after_copies(ring.v_barrier(0));
    }
#pragma unroll 1
    for (int t = 1; t < STAGES; ++t) {
        ring.start_k(t);
        ring.start_v(t);
    }
    Rows rows(args.softmax_scale * LOG2_E * code_scale(args.q_scale, args.heads, work.batch, work.head) *
              code_scale(args.k_scale, args.kv_heads, work.batch, work.kv_head));
    constexpr int BIT = 31;
    ptx::mbarrier_wait(query_barrier(), phases >> BIT);
    phases ^= 1u << BIT;
    Queries queries;
    queries.begin();
    attend_to_all(args, work, ring, queries, rows);
    const WorkTile done = again(args, work);
    if (complete(rows, group, code_scale(args.v_scale, args.kv_heads, done.batch, done.kv_head))) {
        store_rows(args, done, rows);
        if (args.lse != nullptr) store_lse(args, done, rows);
    }
}

}  // namespace flash

// The 1: registers as needed. Left to itself the compiler aims at more blocks per multiprocessor and spills to get there.
extern "C" __global__ void __launch_bounds__(flash::THREADS, 1)
attention_mma(const __grid_constant__ attention::Arguments args) {
    using namespace flash;
    Phases phases = 0;
    for_each_work_tile(args, [&](const WorkTile& work, bool first) { compute(args, work, first, phases); });
}
