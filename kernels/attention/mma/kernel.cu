// Fused attention on mma.sync: scores, weights and output stay in registers from the first product to the last.
// For sm_80 and everything newer; fp16 and bf16 by m16n8k16, E4M3 by m16n8k32 (sm_89 and newer; see rows_fp8.cuh).
//
// Algorithm (online softmax). A work tile is BLOCK_M query rows of one head. Its keys come in steps of BLOCK_N, the
// last step first, so that the steps that need the mask (the diagonal, the end of the sequence) come before all
// others and have a loop of their own:
//
//   S = Q K^T                          tensor cores, fp32 sums
//   m' = max(m, max S)                 only if scores exceed m by more than 8; else m stays, O is not rescaled
//   P = 2^(scale S - scale m')         fp32, rounded to the input type (FP8: some of it twice)
//   l = 2^(m-m') l + sum P             beside P V, or one more column of it
//   O = 2^(m-m') O + P V               tensor cores, fp32 sums
//
// and at the end O / l. The scale (with log2 e and, for FP8, the scales of Q and K) is one FMA with the maximum; V's
// scale goes into the final division. It must not be negative.
//
// Ownership. A warp owns STRIPS strips of 16 rows, and its lanes hold S and O in the layout of the tensor cores:
//
//            8 keys                    lane l = 4 r + q has, of each 16x8 block, columns 2q and 2q+1 of rows r (top)
//          +--------+                  and r + 8 (bottom). The pairs of two neighbouring blocks, rounded, are exactly
//       r  | ..qq.. |                  the left factor of P V for 16 keys: P never leaves the lane that computed it.
//          |        |  16 rows         FP8: four blocks make one factor for 32 keys, taken in the order 0 1 8 9 2 3
//     r+8  | ..qq.. |                  10 11 ...; V's rows are taken in the same order (see RowsFp8::add_values).
//          +--------+
//
// K and V lie in shared memory as rows of 16-byte chunks (common/chunks.cuh) and become fragments by ldmatrix, V's
// transposed on the way. In bytes fp16 and FP8 are alike: a step of the tensor cores is 32 bytes deep.
//
// Copies. K and V have rings of STAGES tiles each, filled by cp.async in the order K0 V0 K1 V1 ... Every slot has an
// mbarrier that completes when all threads have copied their part of its tile. Threads synchronise only where a slot is
// filled again; if all keys fit into the rings, they do not synchronise at all.
//
//     wait for K_t;  S = Q K_t;  sync, refill K's slot;  wait for V_t;  O += P V_t;  sync, refill V's slot
//
// SPLIT_KV: the block's warps form that many groups. All groups share the queries; group g takes every SPLIT_KV-th
// step, with its own rings and barriers, and at the end the groups' outputs are added through shared memory. For
// problems with too few query rows to fill a GPU: more warps, and more copies in flight, per row.
//
// A short launch spends most of its time at its beginning and its end, in code that runs once and waits for its
// instructions and parameters. That code is therefore short, not unrolled, with few branches and simple addresses.
//
// Shared memory, fp16 (the manifest is the only formula):
//   K and V: 2 * SPLIT_KV * STAGES * BLOCK_N * head_dim * 2 bytes; Q another BLOCK_M * head_dim * 2; the results of
//   all groups but one: BLOCK_M * (head_dim + 8) * 4 each. 64 keys, head_dim 64, two stages: 32 KiB and Q.
// Registers per lane: O takes STRIPS * head_dim / 2, S takes STRIPS * BLOCK_N / 2, Q the same as O in halves.
//
// Serving (lengths, pages, windows, sinks, softcap): the same steps, from the first key that a row of the tile sees to the
// last. All of them are masked, keys are copied row by row through the table of pages, and a sink is one more weight at
// the end. It is right, and not tuned.
//
// NOTES.md lists experiments and their results.

#include "mma/candidate.cuh"
#include "mma/rows_16bit.cuh"
#include "mma/rows_fp8.cuh"

namespace flash {

template <bool CONDITION, typename Yes, typename No>
struct Choose {
    using Type = Yes;
};
template <typename Yes, typename No>
struct Choose<false, Yes, No> {
    using Type = No;
};
using Rows = Choose<FP8, RowsFp8<BLOCK_N>, Rows16bit<BLOCK_N>>::Type;

// ---- the end: normalise and store the output ----

__device__ Output* output_row(const Arguments& args, const WorkTile& work, int row) {
    Output* const o = static_cast<Output*>(args.o);
    if constexpr (SERVING) return attention::served_row(args, o, args.o_strides, work.batch, work.head, work.first_query + row);
    return attention::head_start(o, args.o_strides, work.batch, work.head) +
           static_cast<long long>(work.first_query + row) * args.o_strides.sequence;
}

__device__ void store_lse(const Arguments& args, const WorkTile& work, const Rows& rows) {
#pragma unroll
    for (int i = 0; i < STRIPS * 2; ++i) {
        const int strip = i / 2, half = i % 2, query = work.first_query + own_row(strip, half);
        if (quad_lane() == 0 && query < queries_of(args, work))
            args.lse[SERVING ? attention::served_row_index(args, work.batch, work.head, query)
                             : attention::row_index(args, work.batch, work.head, query)] =
                log_sum_exp(rows.origin[strip][half], rows.sum[strip][half]);
    }
}

// Stores rows from registers to global memory, 16 bytes at a time.
__device__ void store_rows(const Arguments& args, const WorkTile& work, const Rows& rows) {
    constexpr int WORDS = Rows::WORDS;
    const Output* tag = nullptr;
#pragma unroll
    for (int i = 0; i < STRIPS * 2; ++i) {
        const int strip = i / 2, half = i % 2, row = own_row(strip, half);
        const bool exists = work.first_query + row < queries_of(args, work);
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
            const int column = Rows::gather(w, word);
            if (exists) ptx::store16(o + column, w);
        }
#pragma unroll
        for (int word = WORDS / 4 * 4; word < WORDS; ++word) {
            if (exists) *reinterpret_cast<unsigned*>(o + Rows::column_of(word)) = words[word];
        }
    }
}

// `normaliser` of common/softmax.cuh without the slow path of a division, whose code every launch would have to fetch.
__device__ float normal(float sum, float v_scale) {
    return sum > 0.0f ? v_scale * ptx::reciprocal_approx(sum) : 0.0f;
}

// Divides the rows of a strip by their sums, to which a sink adds one more weight.
__device__ void add_sink(Rows& rows, int strip, float v_scale, float sink) {
    float factor[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        float& origin = rows.origin[strip][half];
        const float highest = fmaxf(origin, sink), of_keys = ptx::exp2_approx(origin - highest);
        rows.sum[strip][half] = rows.sum[strip][half] * of_keys + ptx::exp2_approx(sink - highest);
        factor[half] = normal(rows.sum[strip][half], v_scale) * of_keys;
        origin = highest;
    }
    rows.scale_output(strip, factor);
}

// Divides the rows by their sums; `sink` is the exponent of one more weight of every row. The other groups store their rows
// in shared memory, and the first group adds them to its own; each of its warps waits only for the warps with the same
// rows. Returns true in the group with the result.
__device__ bool complete(Rows& rows, int group, float v_scale, float sink) {
    rows.complete_sums();
    if constexpr (!SPLIT) {
#pragma unroll
        for (int strip = 0; strip < STRIPS; ++strip) {
            if constexpr (SERVING) {
                add_sink(rows, strip, v_scale, sink);
                continue;
            }
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
        // The factor of each group's rows: it brings them to a common origin and divides them by the total sum.
        float factor[GROUPS][2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float highest = SERVING ? fmaxf(origin[0][half], sink) : origin[0][half];
#pragma unroll
            for (int g = 1; g < GROUPS; ++g) highest = fmaxf(highest, origin[g][half]);
            float total = SERVING ? ptx::exp2_approx(sink - highest) : 0.0f;
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

// One bit per barrier of the group: the phase that its next tile completes. It is kept between work tiles.
using Phases = unsigned;

// Copies a cache of lengths and pages by cp.async, tile after tile, with the functions of KvCopier. Keys that no row of the
// work tile sees are not read, and become zeros.
struct CacheCopier {
    const Arguments& args;
    const void* tensor;
    const attention::Strides& strides;
    const WorkTile& work;
    int first_key;  // of the next tile

    template <bool>
    __device__ void copy(KvTile tile, int, unsigned thread) const {
        for (int i = thread; i < BLOCK_N * ROW_CHUNKS; i += GROUP_THREADS) {
            const int row = i / ROW_CHUNKS, chunk = i % ROW_CHUNKS, key = first_key + row;
            const bool exists = key < work.end && key >= attention::visible(args, work.size, work.first_query).first;
            const char* from = static_cast<const char*>(tensor);
            if (exists) {
                const attention::CachePlace place = attention::cache_place(args, work.batch, key);
                from = head_bytes(tensor, strides, place.entry, work.kv_head) +
                       static_cast<long long>(place.position) * row_bytes(strides) + chunk * 16;
            }
            ptx::copy16_async(tile.chunk(row, chunk), from, exists);
        }
    }
    __device__ void move(int rows) { first_key += rows; }
};
using Copier = Choose<SERVING, CacheCopier, KvCopier>::Type;

__device__ Copier cache_copier(const Arguments& args, const WorkTile& work, const void* tensor,
                               const attention::Strides& strides, int step) {
    if constexpr (SERVING) {
        return {args, tensor, strides, work, work.first_key + step * BLOCK_N};
    } else {
        return {head_bytes(tensor, strides, work.batch, work.kv_head), row_bytes(strides), step * BLOCK_N,
                static_cast<unsigned>(group_thread())};
    }
}

// K and V of one group: the places of their tiles, the copies into them, and the waits for these copies.
struct Ring {
    Phases& phases;
    const int group;
    const int steps;  // of this group
    Copier k, v;      // at the group's next step

    __device__ Ring(const Arguments& args, const WorkTile& work, int group_, Phases& phases_)
        : phases(phases_), group(group_), steps(share_of(work.steps, group)),
          k(cache_copier(args, work, args.k, args.k_strides, step_of(work, group, 0))),
          v(cache_copier(args, work, args.v, args.v_strides, step_of(work, group, 0))) {}

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
    __device__ void copy_first(Copier& copier, KvTile tile, int rows) const {
        copier.template copy<false>(tile, rows, group_thread());
        copier.move(-GROUPS * BLOCK_N);
    }
    __device__ void start_k(int t) { start(k, k_tile(t), k_barrier(t), t); }
    __device__ void start_v(int t) { start(v, v_tile(t), v_barrier(t), t); }
    __device__ void start(Copier& copier, KvTile tile, unsigned barrier, int t) const {
        if (t >= steps) return;
        copier.template copy<true>(tile, BLOCK_N, group_thread());
        copier.move(-GROUPS * BLOCK_N);
        ptx::mbarrier_arrive_after_copies(barrier);
    }

    // Waits until all threads of the group have copied their part of a tile.
    __device__ void await_k(int t) const { await(k_barrier(t), t % STAGES); }
    __device__ void await_v(int t) const { await(v_barrier(t), STAGES + t % STAGES); }
    __device__ void await(unsigned barrier, int bit) const {
        ptx::mbarrier_wait(barrier, phases >> bit & 1);
        phases ^= 1u << bit;
    }

    // Number of steps whose slots are filled again; after these steps no thread waits for another.
    __device__ int followed() const { return max(steps - STAGES, 0); }
    // When all threads are done with this step's K (or V), starts the copy of the tile that takes its place.
    __device__ void replace_k(int t) {
        group_sync(group);
        start_k(t + STAGES);
    }
    __device__ void replace_v(int t) {
        group_sync(group);
        start_v(t + STAGES);
    }
};

// The group's steps [from, to), in its own numbering. FOLLOWED: whether their slots are filled again (perhaps: test).
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
        if constexpr (MASKED) hide(s, args, work, key_of(work, ring.group, t));
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
        add_weighted_and_look_ahead(rows, s, ring.v_tile(t), queries, ring.k_tile(t + 1));
        if (t + 1 < masked) hide(s, args, work, key_of(work, ring.group, t + 1));
        rows.raise_origin(s, false);
        if constexpr (FOLLOWED) {
            ring.replace_v(t);
            ring.start_k(t + 1 + STAGES);  // all threads are done with that tile too
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
        if (masked > 0) hide(s, args, work, key_of(work, ring.group, 0));
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

// Only FP8 tensors have scales.
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
    const bool is_capped = SERVING && args.softcap > 0.0f;
    const float scale = is_capped ? args.softcap : args.softmax_scale;
    Rows rows(scale * LOG2_E * code_scale(args.q_scale, args.heads, work.batch, work.head) *
              code_scale(args.k_scale, args.kv_heads, work.batch, work.kv_head));
    constexpr int BIT = 31;
    ptx::mbarrier_wait(query_barrier(), phases >> BIT);
    phases ^= 1u << BIT;
    Queries queries;
    queries.begin();
    attend_to_all(args, work, ring, queries, rows);
    const WorkTile done = again(args, work);
    const bool has_sink = SERVING && args.sinks != nullptr;
    const float sink = has_sink ? args.sinks[done.head] * LOG2_E : negative_infinity();
    if (complete(rows, group, code_scale(args.v_scale, args.kv_heads, done.batch, done.kv_head), sink)) {
        store_rows(args, done, rows);
        if (args.lse != nullptr) store_lse(args, done, rows);
    }
}

}  // namespace flash

// The 1 allows as many registers as needed. Without it the compiler aims at more blocks per multiprocessor and spills.
extern "C" __global__ void __launch_bounds__(flash::THREADS, 1)
attention_mma(const __grid_constant__ attention::Arguments args) {
    using namespace flash;
    Phases phases = 0;
    for_each_work_tile(args, [&](const WorkTile& work, bool first) { compute(args, work, first, phases); });
}
