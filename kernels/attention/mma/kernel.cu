// Fused attention on mma.sync: scores, weights and output stay in registers from the first product to the last.
// For sm_80 and everything newer; fp16 and bf16 by m16n8k16, E4M3 by m16n8k32 (sm_89 and newer; see FP8_WEIGHTS).
//
// Algorithm (online softmax). A work tile is BLOCK_M query rows of one head. Its keys come in steps of BLOCK_N, the
// last step first, so that the steps that need the mask (the diagonal, the end of the sequence) come before all
// others and have a loop of their own:
//
//   S = Q K^T                          tensor cores, fp32 sums
//   m' = max(m, max S)                 only where scores exceed m by more than 8: until then m stays, and O with it
//   P = 2^(scale S - scale m'), l += sum P     fp32, rounded to the input type (FP8: some of it twice)
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
//     r+8  | ..qq.. |                  10 11 ...; V's rows are taken in the same order (see multiply_values).
//          +--------+
//
// K and V lie in shared memory as rows of 16-byte chunks (common/chunks.cuh) and become fragments by ldmatrix, V's
// transposed on the way. In bytes fp16 and FP8 are alike: a step of the tensor cores is 32 bytes deep.
//
// Copies. K and V have rings of STAGES tiles each, filled by cp.async in the order K0 V0 K1 V1 ...; two barriers per
// step, each of which hands over one landed tile and frees one:
//
//     S = Q K_t;  wait for V_t, barrier, refill K's slot;  O += P V_t;  wait for K_t+1, barrier, refill V's slot
//
// SPLIT_KV: the block's warps form that many groups. All groups share the queries; group g takes every SPLIT_KV-th
// step, with rings and barriers of its own, and at the end the groups' outputs are added through shared memory. For
// problems with too few query rows to fill a GPU: more warps, and more copies in flight, per row.
//
// Shared memory, fp16 (the manifest is the only formula):
//   K and V: 2 * SPLIT_KV * STAGES * BLOCK_N * head_dim * 2 bytes; Q another BLOCK_M * head_dim * 2 where it is kept
//   there. 64 keys, head_dim 64, two stages: 32 KiB. The groups' outputs reuse the rings.
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
static_assert(GROUPS <= 15, "a named barrier per group");
#if defined(__CUDA_ARCH__)
static_assert(!FP8 || __CUDA_ARCH__ >= 890, "the tensor cores multiply E4M3 from sm_89 on");
#endif

using QTile = ChunkTile<BLOCK_M, ROW_CHUNKS, smem::k_tile::dim3, knob::SWIZZLE>;
using KvTile = ChunkTile<BLOCK_N, ROW_CHUNKS, smem::k_tile::dim3, knob::SWIZZLE>;
using KvSource = TileSource<KvTile, GROUP_THREADS>;
constexpr int PARTIAL_PITCH = smem::partial_output::dim2;  // floats

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
// The origin of a row before its first key. Finite, because -inf - -inf is NaN, and below every exponent that counts.
constexpr float NOTHING_SEEN = -1e30f;

// ---- where things are ----

__device__ int lane() { return threadIdx.x % 32; }
__device__ int warp() { return threadIdx.x / 32; }
__device__ int group() { return SPLIT ? warp() / GROUP_WARPS : 0; }
__device__ int group_thread() { return threadIdx.x % GROUP_THREADS; }
__device__ int first_row() { return warp() % GROUP_WARPS * (STRIPS * 16); }  // of the warp, in the work tile
__device__ int quad_lane() { return lane() % 4; }
// The lane's rows in the work tile: half 0 is top, half 1 bottom.
__device__ int own_row(int strip, int half) { return first_row() + strip * 16 + half * 8 + lane() / 4; }

__device__ unsigned in_shared(unsigned offset) { return ptx::shared_address(shared_memory) + offset; }
__device__ QTile q_tile() { return {in_shared(smem::q_tile::offset)}; }
__device__ KvTile k_tile(int slot) {
    return {in_shared(smem::k_tile::offset) + (group() * STAGES + slot) * KvTile::BYTES};
}
__device__ KvTile v_tile(int slot) {
    return {in_shared(smem::v_tile::offset) + (group() * STAGES + slot) * KvTile::BYTES};
}
__device__ float* partial_output(int of_group, int row) {  // [PARTIAL_PITCH]
    return reinterpret_cast<float*>(shared_memory + smem::partial_output::offset) +
           (of_group * BLOCK_M + row) * PARTIAL_PITCH;
}
__device__ float2& partial_row(int of_group, int row) {  // origin and sum
    return reinterpret_cast<float2*>(shared_memory + smem::partial_rows::offset)[of_group * BLOCK_M + row];
}

// All warps of a group meet, and no others.
__device__ void group_sync() {
    if constexpr (!SPLIT) {
        __syncthreads();
    } else if constexpr (GROUP_WARPS == 1) {
        __syncwarp();
    } else {
        ptx::named_barrier_sync<GROUP_THREADS>(1 + group());
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
        : batch(batch_), head(head_),
          kv_head(args.heads == args.kv_heads ? head : attention::kv_head_of(args, head)),
          first_query(query_block * BLOCK_M) {
        const int last_query = min(first_query + BLOCK_M, args.seq_q) - 1;
        const int seen_by_all = max(attention::visible_keys(args, first_query), 0);
        const int seen_by_any = max(attention::visible_keys(args, last_query), 0);
        steps = (seen_by_any + BLOCK_N - 1) / BLOCK_N;
        masked = steps - seen_by_all / BLOCK_N;
    }
};

__device__ int query_blocks(const Arguments& args) { return (args.seq_q + BLOCK_M - 1) / BLOCK_M; }

// Calls `visit` with the block's work tiles: its own one, or every PERSISTENT-th. Neighbours share a head, so its K and
// V stay in L2; the last query block, the longest under a causal mask, comes first.
template <typename Visit>
__device__ void for_each_work_tile(const Arguments& args, Visit visit) {
    if constexpr (PERSISTENT) {
        const int blocks = query_blocks(args);
        for (int index = blockIdx.x; index < blocks * args.heads * args.batch; index += knob::PERSISTENT) {
            if (index >= knob::PERSISTENT) __syncthreads();  // the work tile before is done with every buffer
            visit(WorkTile(args, blocks - 1 - index % blocks, index / blocks % args.heads, index / blocks / args.heads));
        }
    } else {
        visit(WorkTile(args, gridDim.x - 1 - blockIdx.x, blockIdx.y, blockIdx.z));
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
__device__ int step_of(const WorkTile& work, int t) { return work.steps - 1 - (t * GROUPS + group()); }
__device__ int share_of(int count) { return (count - group() + GROUPS - 1) / GROUPS; }

// ---- Q, the left factor of the scores ----

__device__ const char* head_bytes(const void* tensor, const attention::Strides& strides, int batch, int head) {
    return reinterpret_cast<const char*>(
        attention::head_start(static_cast<const Element*>(tensor), strides, batch, head));
}

// Held in registers: straight from global memory, each lane its own words.
struct QueriesInRegisters {
    unsigned words[STRIPS][DEPTH_STEPS][4];

    __device__ void start(const Arguments& args, const WorkTile& work) {
        const char* q = head_bytes(args.q, args.q_strides, work.batch, work.head) + quad_lane() * 4;
#pragma unroll
        for (int strip = 0; strip < STRIPS; ++strip) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int query = work.first_query + own_row(strip, half);
                const char* row = q + query * args.q_strides.sequence * static_cast<int>(sizeof(Element));
#pragma unroll
                for (int chunk = 0; chunk < 2 * DEPTH_STEPS; ++chunk) {
                    const bool exists = chunk < ROW_CHUNKS && query < args.seq_q;
                    words[strip][chunk / 2][chunk % 2 * 2 + half] =
                        exists ? ptx::load_word(row + chunk * 16) : 0;
                }
            }
        }
    }
    __device__ void fragment(unsigned (&a)[STRIPS][4], int depth) const {
#pragma unroll
        for (int i = 0; i < STRIPS * 4; ++i) a[i / 4][i % 4] = words[i / 4][depth][i % 4];
    }
};

// Kept in shared memory and read again at every step: registers for O instead.
struct QueriesInShared {
    LaneRow<QTile> place{q_tile(), first_row() + lane() % 16, lane() / 16};

    // Becomes part of the first group of copies.
    __device__ void start(const Arguments& args, const WorkTile& work) {
        const TileSource<QTile, THREADS> source{head_bytes(args.q, args.q_strides, work.batch, work.head),
                                                args.q_strides.sequence * static_cast<int>(sizeof(Element))};
        source.template copy<false>(work.first_query, args.seq_q, q_tile(), threadIdx.x);
    }
    __device__ void fragment(unsigned (&a)[STRIPS][4], int depth) const {
#pragma unroll
        for (int strip = 0; strip < STRIPS; ++strip) {
            if (LAST_DEPTH_IS_HALF && depth == DEPTH_STEPS - 1) {
                ptx::load_matrix_x4(a[strip], place.at_single(strip * 16, 2 * depth));
            } else {
                ptx::load_matrix_x4(a[strip], place.at(strip * 16, 2 * depth));
            }
        }
    }
};

template <bool IN_REGISTERS>
struct QueriesOf {
    using Type = QueriesInRegisters;
};
template <>
struct QueriesOf<false> {
    using Type = QueriesInShared;
};
using Queries = QueriesOf<QUERIES_IN_REGISTERS>::Type;

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
    float sum[STRIPS][2];         // of the lane's own columns
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
        sum[strip][half] += w.x + w.y;
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

    // fp16 and bf16: O += P V. The weights of the next 16 keys are computed between the products of these, a register at
    // a time: exponentials and tensor cores are different pipes. WEIGHED: P is complete already.
    template <bool WEIGHED>
    __device__ void add_values(Weights& p, const Scores& s, KvTile v) {
        constexpr int COLUMN_PAIRS = OUTPUT_BLOCKS / 2;
        const LaneRow<KvTile> place(v, lane() % 16, lane() / 16);
        if constexpr (!WEIGHED) weigh_part(p, s, 0, 0, 1);
#pragma unroll
        for (int step = 0; step < KEY_STEPS; ++step) {
#pragma unroll
            for (int column = 0; column < COLUMN_PAIRS; ++column) {
                unsigned b[4];
                ptx::load_matrix_x4_transposed(b, place.at(16 * step, 2 * column));
#pragma unroll
                for (int strip = 0; strip < STRIPS; ++strip) {
                    Number::multiply_add(output[strip][2 * column], p[step][strip], b[0], b[1]);
                    Number::multiply_add(output[strip][2 * column + 1], p[step][strip], b[2], b[3]);
                }
                if (!WEIGHED && step + 1 < KEY_STEPS) weigh_part(p, s, step + 1, column, COLUMN_PAIRS);
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
            add_values<false>(p, s, v);
        }
    }

    // Turns the scores into weights and then, in their place, into the scores of the next step: while the tensor cores
    // multiply for the keys whose weights are done, the next keys' exponentials are computed.
    __device__ void weigh_and_look_ahead(Weights& p, Scores& s, const Queries& queries, KvTile next) {
        weigh_part(p, s, 0, 0, 1);
#pragma unroll
        for (int step = 0; step < KEY_STEPS; ++step) {
            constexpr int PAIRS = STEP_KEYS / 16;
            clear_scores<PAIRS>(s, step * PAIRS);
#pragma unroll
            for (int depth = 0; depth < DEPTH_STEPS; ++depth) {
                add_scores<PAIRS>(s, step * PAIRS, queries, next, depth);
                if (step + 1 < KEY_STEPS) weigh_part(p, s, step + 1, depth, DEPTH_STEPS);
            }
        }
    }
    __device__ void add_values_of(Weights& p, const Scores& s, KvTile v) {
        if constexpr (FP8) {
            add_values_fp8(p, v);
        } else {
            add_values<true>(p, s, v);
        }
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

    // Adds factor * x to a pair of columns.
    __device__ void add_word(int strip, int half, int word, float factor, float2 x) {
        float& first = FP8 ? output[strip][word / 2 * 2][2 * half + word % 2] : output[strip][word][2 * half];
        float& second = FP8 ? output[strip][word / 2 * 2 + 1][2 * half + word % 2] : output[strip][word][2 * half + 1];
        first = fmaf(factor, x.x, first);
        second = fmaf(factor, x.y, second);
    }

    // Moves a row's origin to another, with its sum and output.
    __device__ void rescale(int strip, int half, float to) {
        const float factor = ptx::exp2_approx(origin[strip][half] - to);
        origin[strip][half] = to;
        sum[strip][half] *= factor;
#pragma unroll
        for (int block = 0; block < OUTPUT_BLOCKS; ++block) {
            output[strip][block][2 * half] *= factor;
            output[strip][block][2 * half + 1] *= factor;
        }
    }

    // The lanes of a row add up their sums. A row that has seen nothing has sum 0.
    __device__ void complete_sums() {
#pragma unroll
        for (int i = 0; i < STRIPS * 2; ++i) sum[i / 2][i % 2] = group_sum<4>(sum[i / 2][i % 2]);
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
           (work.first_query + row) * args.o_strides.sequence;
}

__device__ void store_lse(const Arguments& args, const WorkTile& work, int row, float2 statistics) {
    args.lse[attention::row_index(args, work.batch, work.head, work.first_query + row)] =
        log_sum_exp(statistics.x, statistics.y);
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

// Rows / sum straight from registers to global memory, 16 bytes at a time.
__device__ void store_rows(const Arguments& args, const WorkTile& work, const Rows& rows, float v_scale) {
    constexpr int WORDS = Rows::WORDS;
    const Output* tag = nullptr;
#pragma unroll
    for (int i = 0; i < STRIPS * 2; ++i) {
        const int strip = i / 2, half = i % 2, row = own_row(strip, half);
        const bool exists = work.first_query + row < args.seq_q;
        const float2 statistics = make_float2(rows.origin[strip][half], rows.sum[strip][half]);
        const float factor = normaliser(statistics.y, v_scale);
        Output* o = output_row(args, work, row);
        unsigned words[WORDS];
#pragma unroll
        for (int word = 0; word < WORDS; ++word) {
            const float2 x = rows.word_of(strip, half, word);
            words[word] = pack(x.x * factor, x.y * factor, tag);
        }
#pragma unroll
        for (int word = 0; word + 4 <= WORDS; word += 4) {
            unsigned(&w)[4] = reinterpret_cast<unsigned(&)[4]>(words[word]);
            const int column = gather(w, word);
            if (exists) *reinterpret_cast<uint4*>(o + column) = make_uint4(w[0], w[1], w[2], w[3]);
        }
#pragma unroll
        for (int word = WORDS / 4 * 4; word < WORDS; ++word) {
            if (exists) *reinterpret_cast<unsigned*>(o + Rows::column_of(word)) = words[word];
        }
        if (args.lse != nullptr && exists && quad_lane() == 0) store_lse(args, work, row, statistics);
    }
}

// The other groups leave their rows in shared memory and the first adds them to its own; true for the first.
__device__ bool add_other_groups(Rows& rows) {
    __syncthreads();  // the rings are free
    if (group() > 0) {
#pragma unroll
        for (int i = 0; i < STRIPS * 2; ++i) {
            const int strip = i / 2, half = i % 2, row = own_row(strip, half);
#pragma unroll
            for (int word = 0; word < Rows::WORDS; ++word)
                *reinterpret_cast<float2*>(partial_output(group(), row) + Rows::column_of(word)) =
                    rows.word_of(strip, half, word);
            if (quad_lane() == 0)
                partial_row(group(), row) = make_float2(rows.origin[strip][half], rows.sum[strip][half]);
        }
    }
    __syncthreads();
    if (group() > 0) return false;
#pragma unroll
    for (int i = 0; i < STRIPS * 2; ++i) {
        const int strip = i / 2, half = i % 2, row = own_row(strip, half);
        float origin = rows.origin[strip][half];
#pragma unroll
        for (int g = 1; g < GROUPS; ++g) origin = fmaxf(origin, partial_row(g, row).x);
        rows.rescale(strip, half, origin);
#pragma unroll
        for (int g = 1; g < GROUPS; ++g) {
            const float2 theirs = partial_row(g, row);
            const float factor = ptx::exp2_approx(theirs.x - origin);
            rows.sum[strip][half] = fmaf(factor, theirs.y, rows.sum[strip][half]);
#pragma unroll
            for (int word = 0; word < Rows::WORDS; ++word)
                rows.add_word(strip, half, word, factor,
                              *reinterpret_cast<const float2*>(partial_output(g, row) + Rows::column_of(word)));
        }
    }
    return true;
}

// ---- the loop ----

// One group's K and V: which step's tiles are where, and the copies that bring them.
struct Ring {
    const WorkTile& work;
    KvSource k, v;
    int steps;  // of this group
    int rows;   // of K and V that exist

    __device__ Ring(const Arguments& args, const WorkTile& tile)
        : work(tile),
          k{head_bytes(args.k, args.k_strides, work.batch, work.kv_head),
            args.k_strides.sequence * static_cast<int>(sizeof(Element))},
          v{head_bytes(args.v, args.v_strides, work.batch, work.kv_head),
            args.v_strides.sequence * static_cast<int>(sizeof(Element))},
          steps(share_of(work.steps)), rows(args.seq_k) {}

    // Starts one tile's copies, as a group of their own; past the end the group is empty. FIRST: of the group's first
    // step, which may be the work tile's last and reach beyond the keys.
    template <bool FIRST>
    __device__ void start(const KvSource& source, KvTile tile, int t) const {
        const int key = step_of(work, t) * BLOCK_N;
        if (FIRST && t < steps && key + BLOCK_N > rows) {
            source.template copy<false>(key, rows, tile, group_thread());
        } else if (t < steps) {
            source.template copy<true>(key, rows, tile, group_thread());
        }
        ptx::copy_group_end();
    }
    __device__ void start_k(int t) const { start<false>(k, k_tile(t % STAGES), t); }
    __device__ void start_v(int t) const { start<false>(v, v_tile(t % STAGES), t); }
    __device__ void start_first_k() const { start<true>(k, k_tile(0), 0); }
    __device__ void start_first_v() const { start<true>(v, v_tile(0), 0); }
};

// Waits until this thread's oldest tile that is still under way has landed, when all 2 * STAGES are on their way and
// later when one has just been used up; then for the others of the group.
__device__ void first_tile_landed() {
    ptx::copy_groups_wait<2 * STAGES - 1>();
    group_sync();
}
__device__ void next_tile_landed() {
    ptx::copy_groups_wait<2 * STAGES - 2>();
    group_sync();
}

// The group's steps [from, to) in its own counting. K of step `from` has landed.
template <bool MASKED>
__device__ void attend(const Arguments& args, const WorkTile& work, const Ring& ring, const Queries& queries, Rows& rows,
                       int from, int to) {
    for (int t = from; t < to; ++t) {
        Scores s;
        scores_of(s, queries, k_tile(t % STAGES));
        if constexpr (MASKED) hide(s, args, work, step_of(work, t) * BLOCK_N);
        rows.raise_origin(s, t == 0);
        next_tile_landed();  // this V, and everyone is done with this K
        ring.start_k(t + STAGES);
        rows.add_weighted(s, v_tile(t % STAGES));
        next_tile_landed();  // the next K, and everyone is done with this V
        ring.start_v(t + STAGES);
    }
}

// All of the group's steps, with the scores computed one step ahead. The first K has landed.
__device__ void attend_ahead(const Arguments& args, const WorkTile& work, const Ring& ring, const Queries& queries,
                             Rows& rows, int masked) {
    if (ring.steps == 0) return;
    Scores s;
    Weights p;
    scores_of(s, queries, k_tile(0));
    if (masked > 0) hide(s, args, work, step_of(work, 0) * BLOCK_N);
    group_sync();  // everyone is done with the first K
    ring.start_k(STAGES);
    for (int t = 0; t + 1 < ring.steps; ++t) {
        next_tile_landed();  // the next K, and everyone is done with the V before
        if (t == 0) {
            ptx::copy_group_end();  // empty: no V is free yet, and the count of groups goes on
        } else {
            ring.start_v(t - 1 + STAGES);
        }
        rows.raise_origin(s, t == 0);
        rows.weigh_and_look_ahead(p, s, queries, k_tile((t + 1) % STAGES));
        if (t + 1 < masked) hide(s, args, work, step_of(work, t + 1) * BLOCK_N);
        next_tile_landed();  // this V, and everyone is done with the next K
        ring.start_k(t + 1 + STAGES);
        rows.add_values_of(p, s, v_tile(t % STAGES));
    }
    const int last = ring.steps - 1;
    if (STAGES == 1 && last > 0) {
        group_sync();
        ring.start_v(last);
    }
    rows.raise_origin(s, last == 0);
    ptx::copies_wait_all();
    group_sync();
    rows.add_weighted(s, v_tile(last % STAGES));
}

// Only FP8 tensors carry scales.
__device__ float code_scale(const float* scales, int heads, int batch, int head) {
    return FP8 ? attention::head_scale(scales, heads, batch, head) : 1.0f;
}

__device__ void compute(const Arguments& args, const WorkTile& work) {
    const Ring ring(args, work);
    Queries queries;
    if constexpr (QUERIES_IN_REGISTERS) {
        ring.start_first_k();
        queries.start(args, work);
    } else {
        queries.start(args, work);
        ring.start_first_k();
    }
    ring.start_first_v();
#pragma unroll
    for (int t = 1; t < STAGES; ++t) {
        ring.start_k(t);
        ring.start_v(t);
    }
    Rows rows(args.softmax_scale * LOG2_E * code_scale(args.q_scale, args.heads, work.batch, work.head) *
              code_scale(args.k_scale, args.kv_heads, work.batch, work.kv_head));
    first_tile_landed();
    if constexpr (SPLIT && !QUERIES_IN_REGISTERS) __syncthreads();  // the queries come from all groups
    const int masked = share_of(work.masked);
    if constexpr (LOOK_AHEAD) {
        attend_ahead(args, work, ring, queries, rows, masked);
    } else {
        attend<true>(args, work, ring, queries, rows, 0, masked);
        attend<false>(args, work, ring, queries, rows, masked, ring.steps);
    }

    rows.complete_sums();
    if (!SPLIT || add_other_groups(rows)) {
        const WorkTile done = again(args, work);
        store_rows(args, done, rows, code_scale(args.v_scale, args.kv_heads, done.batch, done.kv_head));
    }
}

}  // namespace flash

// The 1: registers as needed. Left to itself the compiler aims at more blocks per multiprocessor and spills to get there.
extern "C" __global__ void __launch_bounds__(flash::THREADS, 1)
attention_mma(const __grid_constant__ attention::Arguments args) {
    using namespace flash;
    for_each_work_tile(args, [&](const WorkTile& work) { compute(args, work); });
}
