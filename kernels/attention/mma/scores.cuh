// S = Q K^T: the queries as left factors, the products with the keys, and the mask.
#pragma once

#include "mma/work.cuh"

namespace flash {

// ---- Q, the left factor of the scores ----

__device__ const char* head_bytes(const void* tensor, const attention::Strides& strides, int batch, int head) {
    return reinterpret_cast<const char*>(
        attention::head_start(static_cast<const Element*>(tensor), strides, batch, head));
}

__device__ int row_bytes(const attention::Strides& strides) {
    return strides.sequence * sizeof(Element);
}

// Copied to shared memory, and from there read into registers once, or at every step, which leaves registers for O.
struct Queries {
    LaneRow<QTile> place{q_tile(), first_row() + lane() % 16, lane() / 16};
    unsigned words[QUERIES_IN_REGISTERS ? STRIPS : 1][DEPTH_STEPS][4];

    // All threads of the block copy.
    __device__ static void start(const Arguments& args, const WorkTile& work) {
        // Of the whole tensor, where sequences follow one another.
        const attention::TokenPlace sequence =
            SERVING ? attention::sequence_place(args.query_starts, work.batch) : attention::TokenPlace{work.batch, 0};
        const TileCopier<QTile, THREADS> copier(head_bytes(args.q, args.q_strides, sequence.entry, work.head),
                                                row_bytes(args.q_strides), sequence.first + work.first_query, threadIdx.x);
        copier.template copy<false>(q_tile(), queries_of(args, work) - work.first_query, threadIdx.x);
    }
    // Call this when the copies are complete.
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

// Caps the scores of a step, and masks the keys that a row does not see, of a problem for serving. A capped score is
// divided by the cap, which the scale contains.
__device__ void hide_served(Scores& s, const Arguments& args, const WorkTile& work, int first_key) {
#pragma unroll
    for (int strip = 0; strip < STRIPS; ++strip) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const attention::KeyRange seen =
                attention::visible(args, work.size, work.first_query + own_row(strip, half));
            const int column = first_key + quad_lane() * 2, first = seen.first - column, end = seen.end - column;
#pragma unroll
            for (int i = 0; i < SCORE_BLOCKS * 2; ++i) {
                float& score = s[strip][i / 2][2 * half + i % 2];
                const int key = i / 2 * 8 + i % 2;
                if (args.softcap > 0.0f) score = tanh_of(args.softmax_scale / args.softcap * score);
                if (key < first || key >= end) score = negative_infinity();
            }
        }
    }
}

// Masks the keys that a row does not see; `first_key` is that of the step. The numbers of keys that the lane's rows see
// differ only by the distance of the rows, up to the end of the keys.
__device__ void hide(Scores& s, const Arguments& args, const WorkTile& work, int first_key) {
    if constexpr (SERVING) return hide_served(s, args, work, first_key);
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

}  // namespace flash
