// One warp's rows during the loop: output and softmax so far. The part that both element widths share.
#pragma once

#include "mma/scores.cuh"

namespace flash {

struct RowState {
    const float scale;            // raw scores to base-2 exponents
    float output[STRIPS][OUTPUT_BLOCKS][4];
    float origin[STRIPS][2];      // subtracted from exponents: the maximum so far, or a little less
    float sum[STRIPS][2];         // of the weights in the lane's own columns

    __device__ explicit RowState(float scale_) : scale(scale_) {
#pragma unroll
        for (int i = 0; i < STRIPS * OUTPUT_BLOCKS * 4; ++i)
            output[i / 4 / OUTPUT_BLOCKS][i / 4 % OUTPUT_BLOCKS][i % 4] = 0.0f;
#pragma unroll
        for (int i = 0; i < STRIPS * 2; ++i) {
            origin[i / 2][i % 2] = NOTHING_SEEN;
            sum[i / 2][i % 2] = 0.0f;
        }
    }

    // The largest exponent of each row among the lane's scores, lowered by `shift`. Returns whether one exceeds its origin
    // by more than `threshold` in some lane of the warp.
    __device__ bool outgrown(float (&largest)[STRIPS][2], const Scores& s, float shift, float threshold) const {
        bool own = false;
#pragma unroll
        for (int strip = 0; strip < STRIPS; ++strip) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                float x = fmaxf(s[strip][0][2 * half], s[strip][0][2 * half + 1]);
#pragma unroll
                for (int block = 1; block < SCORE_BLOCKS; ++block)
                    x = fmaxf(x, fmaxf(s[strip][block][2 * half], s[strip][block][2 * half + 1]));
                largest[strip][half] = fmaf(x, scale, -shift);
                own |= largest[strip][half] > origin[strip][half] + threshold;
            }
        }
        return __any_sync(0xffffffffu, own);
    }

    // Raises the origins to the largest exponents and rescales the sums. `correction` is what the output must be
    // multiplied by.
    __device__ void raise(const float (&largest)[STRIPS][2], float (&correction)[STRIPS][2]) {
#pragma unroll
        for (int i = 0; i < STRIPS * 2; ++i) {
            float& from = origin[i / 2][i % 2];
            const float to = fmaxf(from, group_max<4>(largest[i / 2][i % 2]));
            correction[i / 2][i % 2] = ptx::exp2_approx(from - to);
            sum[i / 2][i % 2] *= correction[i / 2][i % 2];
            from = to;
        }
    }

    __device__ void rescale_output(const float (&correction)[STRIPS][2]) {
#pragma unroll
        for (int i = 0; i < STRIPS * OUTPUT_BLOCKS * 4; ++i) {
            const int strip = i / 4 / OUTPUT_BLOCKS, block = i / 4 % OUTPUT_BLOCKS;
            output[strip][block][i % 4] *= correction[strip][i % 4 / 2];
        }
    }

    // Two neighbouring scores as weights.
    __device__ float2 weights(const Scores& s, int strip, int block, int half) const {
        return make_float2(ptx::exp2_approx(fmaf(s[strip][block][2 * half], scale, -origin[strip][half])),
                           ptx::exp2_approx(fmaf(s[strip][block][2 * half + 1], scale, -origin[strip][half])));
    }

    __device__ void scale_output(int strip, const float (&factor)[2]) {
#pragma unroll
        for (int i = 0; i < OUTPUT_BLOCKS * 4; ++i) output[strip][i / 4][i % 4] *= factor[i % 4 / 2];
    }
};

// Among the four lanes of a row: each has words of every chunk and gets all words of one chunk.
__device__ void exchange(unsigned& keep_if_even, unsigned& keep_if_odd, int distance) {
    const bool odd = lane() & distance;
    const unsigned received = __shfl_xor_sync(0xffffffffu, odd ? keep_if_even : keep_if_odd, distance);
    (odd ? keep_if_even : keep_if_odd) = received;
}

// Computes part i of n of a step's words of P.
template <typename Rows>
__device__ void weigh_part(Rows& rows, typename Rows::Weights& p, const Scores& s, int step, int i, int n) {
    constexpr int WORDS = STRIPS * 4;
#pragma unroll
    for (int word = i * WORDS / n; word < (i + 1) * WORDS / n; ++word) rows.weigh(p, s, step, word);
}

// Turns the scores into weights, adds the weighted values, and replaces the scores by those of the next step. The
// exponentials of the next keys are computed between the products of these.
template <typename Rows>
__device__ void add_weighted_and_look_ahead(Rows& rows, Scores& s, KvTile v, const Queries& queries, KvTile next) {
    constexpr int PAIRS = Rows::STEP_KEYS / 16;
    typename Rows::Weights p;
    weigh_part(rows, p, s, 0, 0, 1);
#pragma unroll
    for (int step = 0; step < Rows::KEY_STEPS; ++step) {
        clear_scores<PAIRS>(s, step * PAIRS);
#pragma unroll
        for (int depth = 0; depth < DEPTH_STEPS; ++depth) {
            if (step + 1 < Rows::KEY_STEPS) weigh_part(rows, p, s, step + 1, depth, DEPTH_STEPS);
            add_scores<PAIRS>(s, step * PAIRS, queries, next, depth);
            rows.add_beside_scores(p, v, step, depth);
        }
    }
    rows.add_after_scores(p, v);
}

}  // namespace flash
