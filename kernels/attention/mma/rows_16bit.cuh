// The rows of fp16 and bf16 inputs: P has the type of the inputs.
#pragma once

#include "mma/rows.cuh"

namespace flash {

template <int KEYS>  // of a step
struct Rows16bit : RowState {
    // How far, in powers of two, scores may exceed the row's origin before O is rescaled. fp16 has room for 2^15.
    static constexpr float RESCALE_THRESHOLD = 8.0f;
    static constexpr int STEP_KEYS = 16;  // of one tensor-core step of P V
    static constexpr int KEY_STEPS = KEYS / STEP_KEYS;

    // P of one step, as left factors.
    using Weights = unsigned[KEY_STEPS][STRIPS][4];

    __device__ explicit Rows16bit(float scale_) : RowState(scale_) {}

    // Raises a row's origin if the scores exceed it too far. This is rare once a row has seen some keys, so the lanes of
    // a row exchange their maxima only if some lane of the warp needs it.
    __device__ void raise_origin(const Scores& s, bool first_step) {
        float largest[STRIPS][2], correction[STRIPS][2];
        if (!outgrown(largest, s, 0.0f, RESCALE_THRESHOLD)) return;
        raise(largest, correction);
        if (!first_step) rescale_output(correction);
    }

    // The n-th of a step's STRIPS * 4 words of P.
    __device__ void weigh(Weights& p, const Scores& s, int step, int n) {
        const int strip = n / 4, word = n % 4, half = word % 2, block = step * 2 + word / 2;
        const float2 w = weights(s, strip, block, half);
        sum[strip][half] += w.x + w.y;  // before they are rounded: the log-sum-exp is exact
        p[step][strip][word] = pack(w.x, w.y, static_cast<const Output*>(nullptr));
    }

    // Adds the values of 16 keys to a pair of O's blocks.
    __device__ void add_columns(const Weights& p, KvTile v, int step, int pair) {
        const LaneRow<KvTile> place(v, lane() % 16, lane() / 16);
        unsigned b[4];
        ptx::load_matrix_x4_transposed(b, place.at(16 * step, 2 * pair));
#pragma unroll
        for (int strip = 0; strip < STRIPS; ++strip) {
            Number::multiply_add(output[strip][2 * pair], p[step][strip], b[0], b[1]);
            Number::multiply_add(output[strip][2 * pair + 1], p[step][strip], b[2], b[3]);
        }
    }

    // Turns the scores into weights and adds the weighted values. The weights of the next 16 keys are computed between the
    // products of these, a register at a time: exponentials and tensor cores are different pipes.
    __device__ void add_weighted(const Scores& s, KvTile v) {
        constexpr int PAIRS = OUTPUT_BLOCKS / 2;
        Weights p;
        weigh_part(*this, p, s, 0, 0, 1);
#pragma unroll
        for (int step = 0; step < KEY_STEPS; ++step) {
#pragma unroll
            for (int pair = 0; pair < PAIRS; ++pair) {
                add_columns(p, v, step, pair);
                if (step + 1 < KEY_STEPS) weigh_part(*this, p, s, step + 1, pair, PAIRS);
            }
        }
    }
    __device__ void add_beside_scores(const Weights& p, KvTile v, int step, int depth) { add_columns(p, v, step, depth); }
    __device__ void add_after_scores(const Weights&, KvTile) {}

    // ---- the outputs as words of two neighbouring columns ----

    static constexpr int WORDS = HEAD_DIM / 8;
    __device__ static int column_of(int word) { return word * 8 + quad_lane() * 2; }
    __device__ float2 word_of(int strip, int half, int word) const {
        return make_float2(output[strip][word][2 * half], output[strip][word][2 * half + 1]);
    }
    // Four words of a lane, of columns column_of(word + 0..3), become eight neighbouring columns. Returns the first.
    __device__ static int gather(unsigned (&w)[4], int word) {  // word i of the four lanes is one chunk
        exchange(w[0], w[1], 1);
        exchange(w[2], w[3], 1);
        exchange(w[0], w[2], 2);
        exchange(w[1], w[3], 2);
        return (word + quad_lane()) * 8;
    }

    // Every lane of a row gets the row's sum. A row that has seen no key has sum 0.
    __device__ void complete_sums() {
#pragma unroll
        for (int i = 0; i < STRIPS * 2; ++i)
            sum[i / 2][i % 2] = group_sum<4>(sum[i / 2][i % 2]);
    }
};

}  // namespace flash
