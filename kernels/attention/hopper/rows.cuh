// A warpgroup's 64 rows during the loop: scores, output, and the softmax so far. `rows_16bit.cuh` and `rows_fp8.cuh` add
// the weights and the products with V.
#pragma once

#include "hopper/candidate.cuh"

namespace hopper {

__device__ inline unsigned pack(float low, float high, const __half*) {
    const __half2 pair = __floats2half2_rn(low, high);
    return reinterpret_cast<const unsigned&>(pair);
}
__device__ inline unsigned pack(float low, float high, const __nv_bfloat16*) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<const unsigned&>(pair);
}
// Two neighbours as one register of the output's type.
__device__ inline unsigned pack(float low, float high) { return pack(low, high, static_cast<const Output*>(nullptr)); }

// Where a warp's rows of the output are.
struct OutputPlace {
    Output* first;    // of the warp's 16 rows
    unsigned stride;  // from row to row
    int rows;         // that exist; may be more than 16 or negative
};

// Per lane: of each row, 2 columns in every 8. Entry i of an accumulator belongs to the row i / 2 % 2.
struct ScoreRows {
    float scale;                       // raw scores to exponents of 2
    float scores[BLOCK_N / 2];         // from `weigh` on, the weights
    float output[HEAD_DIM / 2];
    float origin[2];                   // subtracted from the exponents: the maximum so far, or up to SLACK less, less
                                       // WEIGHT_SHIFT
    float sum[2 * SUMS_OF_ROW];        // of the weights in the lane's own columns
    float sum_of_step[2];              // MAXIMUM late: the same of one step, which may not be in `sum` yet
    bool moved;                        // an origin of the warp's rows has moved, and
    float correction[2];               // what the output must be multiplied by then

    __device__ __forceinline__ explicit ScoreRows(float scale_) : scale(scale_) {
#pragma unroll
        for (int i = 0; i < BLOCK_N / 2; ++i) scores[i] = 0.0f;
#pragma unroll
        for (int i = 0; i < HEAD_DIM / 2; ++i) output[i] = 0.0f;
        begin();
    }
    // Before the first key.
    __device__ __forceinline__ void begin() {
        origin[0] = origin[1] = NOTHING_SEEN;
#pragma unroll
        for (int i = 0; i < 2 * SUMS_OF_ROW; ++i) sum[i] = 0.0f;
    }

    // Starts into = Q K^T. `into` is usually `scores`.
    __device__ __forceinline__ static void start_scores(float (&into)[BLOCK_N / 2], unsigned queries, unsigned keys) {
        constexpr int STEPS = (HEAD_DIM * sizeof(Element) + 31) / 32, STEPS_OF_BOX = ROW_BYTES / 32;
        const unsigned long long a = wgmma::rows_along_depth<ROW_BYTES>(queries);
        const unsigned long long b = wgmma::rows_along_depth<ROW_BYTES>(keys);
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            const int box = step / STEPS_OF_BOX, within = step % STEPS_OF_BOX * 32;
            wgmma::Products<Element, BLOCK_N>::from_shared(into, wgmma::advance(a, box * Q_BOX_BYTES + within),
                                                           wgmma::advance(b, box * KV_BOX_BYTES + within), step > 0);
        }
        wgmma::group_end();
    }

    // Hides the keys that the rows do not see. `visible` counts columns from the lane's own first one.
    template <int COUNT>
    __device__ __forceinline__ static void hide(float (&scores)[COUNT], const int (&visible)[2]) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            if (i / 4 * 8 + i % 2 >= visible[i / 2 % 2]) scores[i] = negative_infinity();
        }
    }
    __device__ __forceinline__ void hide(const int (&visible)[2]) { hide(scores, visible); }

    // The largest new score of each row, in the lane's own columns. Two chains per row have half the latency of one.
    __device__ __forceinline__ void largest_by_floats(float (&largest)[2]) const {
        float chain[4] = {scores[0], scores[1], scores[2], scores[3]};
#pragma unroll
        for (int i = 4; i < BLOCK_N / 2; ++i) chain[i % 4] = fmaxf(chain[i % 4], scores[i]);
        largest[0] = fmaxf(chain[0], chain[1]);
        largest[1] = fmaxf(chain[2], chain[3]);
    }
    // The same with integers, in half the instructions. Positive floats have the order of their bits, so a positive
    // maximum is right. Otherwise the result is some number that is not positive.
    __device__ __forceinline__ void largest_by_integers(float (&largest)[2]) const {
        int chain[4] = {__float_as_int(scores[0]), __float_as_int(scores[4]), __float_as_int(scores[2]),
                        __float_as_int(scores[6])};
        chain[0] = max(chain[0], __float_as_int(scores[1]));
        chain[1] = max(chain[1], __float_as_int(scores[5]));
        chain[2] = max(chain[2], __float_as_int(scores[3]));
        chain[3] = max(chain[3], __float_as_int(scores[7]));
#pragma unroll
        for (int i = 8; i < BLOCK_N / 2; i += 2) {
            int& most = chain[i / 2 % 2 * 2 + i / 4 % 2];
            most = max(max(most, __float_as_int(scores[i])), __float_as_int(scores[i + 1]));
        }
        largest[0] = __int_as_float(max(chain[0], chain[1]));
        largest[1] = __int_as_float(max(chain[2], chain[3]));
    }

    // Whether a row's maximum has grown so far that its origin must move.
    __device__ __forceinline__ bool outgrown(int row, float exponent) const {
        return exponent > origin[row] + (WEIGHT_SHIFT + knob::SLACK);
    }

    // FP8: whether a new largest weight of a row dominates: all earlier ones together weigh at most four times as much.
    // `weight` is in units of the present origin. Then it needs all of the format's range (see `raise_weights`).
    __device__ __forceinline__ bool dominates(int row, float weight) const {
        const float earlier = group_sum<4>(own_sum(row));
        return FP8 && earlier > 0.0f && earlier <= 4.0f * weight;
    }

    // Moves the origins of rows whose maximum has grown by more than SLACK, and the sums with them.
    __device__ __forceinline__ void move_origins(const float (&largest)[2]) {
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            const float exponent = group_max<4>(largest[row]) * scale;
            float shift = WEIGHT_SHIFT;
            if constexpr (FP8) {
                if (dominates(row, ptx::exp2_approx(exponent - origin[row]))) shift = LARGEST_EXPONENT;
            }
            const float to = outgrown(row, exponent) ? exponent - shift : origin[row];
            correction[row] = ptx::exp2_approx(origin[row] - to);
            origin[row] = to;
        }
#pragma unroll
        for (int i = 0; i < 2 * SUMS_OF_ROW; ++i) sum[i] *= correction[i / SUMS_OF_ROW];
    }

    // BLOCK_SCALES: the products of weights and values with one scale are added to those with another. So a weight counts
    // in units of its value's scale: origins and sums belong to values with the scale `now`, and this makes them belong
    // to values with the scale `next`. The output does not change.
    __device__ __forceinline__ void change_value_scale(float now, float next) {
        const float ratio = __fdividef(next, now), exponent = __log2f(ratio);
        origin[0] -= exponent;
        origin[1] -= exponent;
#pragma unroll
        for (int i = 0; i < 2 * SUMS_OF_ROW; ++i) sum[i] *= ratio;
    }

    // Chooses the origins for the new scores. Sets `moved`; the output is not touched.
    __device__ __forceinline__ void choose_origins() {
        float largest[2];
        if constexpr (INTEGER_MAXIMUM && SPLIT) {
            // Few steps, in the first of which an origin can move to any exponent.
            largest_by_integers(largest);
            if (!__all_sync(0xffffffffu, fminf(largest[0], largest[1]) > 0.0f)) largest_by_floats(largest);
        } else {
            // If origins can move only to positive exponents, only a positive maximum matters.
            const float least = fminf(origin[0], origin[1]) + (WEIGHT_SHIFT + knob::SLACK);
            if (INTEGER_MAXIMUM && __all_sync(0xffffffffu, least >= 0.0f)) {
                largest_by_integers(largest);
            } else {
                largest_by_floats(largest);
            }
        }
        // Mostly no origin of the warp's rows moves, and no lane needs to know another's maximum.
        moved = __any_sync(0xffffffffu, outgrown(0, largest[0] * scale) || outgrown(1, largest[1] * scale));
        if (moved) move_origins(largest);
    }

    // Turns score i into a weight and adds it to the sum.
    __device__ __forceinline__ void weigh(int i) {
        scores[i] = ptx::exp2_approx(fmaf(scores[i], scale, -origin[i / 2 % 2]));
        sum[SUMS_OF_ROW * (i / 2 % 2) + i % SUMS_OF_ROW] += scores[i];
    }
    // Turns the scores into weights and adds them up.
    __device__ __forceinline__ void weigh() {
        if constexpr (SUMS_OF_ROW == 1) {
            weigh_step();
            add_sum_of_step();
        } else {
#pragma unroll
            for (int i = 0; i < BLOCK_N / 2; ++i) weigh(i);
        }
    }

    // FP8, for the first weights of rows, whose largest is 2^WEIGHT_SHIFT. Weights below 2^-10 become 0, but a row may have
    // one or a few keys with almost all of its weight (attention sinks) and need the values of many light keys. So if few
    // keys are heavy, the origin moves down, and the weights become as large as the format allows. They then have less room
    // to grow. Rows of ordinary inputs keep theirs: their origins would move again.
    //
    // Whether the sums of a row are so small that few keys may be heavy. Then `raise_weights` looks closer.
    __device__ __forceinline__ bool may_raise_weights() const {
        const float most = fminf(group_max<4>(own_sum(0)), group_max<4>(own_sum(1)));
        return __any_sync(0xffffffffu, most <= 2.25f * (1 << int(WEIGHT_SHIFT)));
    }
    __device__ __forceinline__ void raise_weights() {
        constexpr float LIGHT = WEIGHT_SHIFT > 7 ? 1 << int(WEIGHT_SHIFT - 7) : 1.0f / (1 << int(7 - WEIGHT_SHIFT));
        float factor[2];
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            float balance = 16.0f;  // plus light keys, minus heavy ones; hidden keys have no weight
#pragma unroll
            for (int i = 2 * row; i < BLOCK_N / 2; i += i % 2 == 0 ? 1 : 3)
                balance += scores[i] >= LIGHT ? -1.0f : scores[i] > 0.0f ? 1.0f : 0.0f;
            const float most = LATE_MAXIMUM ? group_max<4>(own_sum(row)) : 1 << int(WEIGHT_SHIFT);
            const float by = fmaxf(LARGEST_EXPONENT - __log2f(most), 0.0f);
            const float to = group_sum<4>(balance) > 0.0f && most > 0.0f ? origin[row] - by : origin[row];
            factor[row] = ptx::exp2_approx(origin[row] - to);
            origin[row] = to;
        }
#pragma unroll
        for (int i = 0; i < 2 * SUMS_OF_ROW; ++i) sum[i] *= factor[i / SUMS_OF_ROW];
#pragma unroll
        for (int i = 0; i < BLOCK_N / 2; ++i) scores[i] *= factor[i / 2 % 2];
    }

    // ---- MAXIMUM late: origins move after the weights, if the sum of a step's weights is too large ----
    //
    // A weight is at most the sum of the lane's weights of its row. So one comparison per row replaces the maximum of
    // the scores. The weights are still there as floats then, so an origin can move, and the weights with it.
    // Near the end of the range of floats, weights no longer tell their scores, which are then computed again
    // (`scores_again.cuh`).

    // Turns the scores into weights with the present origins. Their sums are those of the step.
    __device__ __forceinline__ void weigh_step() {
        float chain[4];
#pragma unroll
        for (int i = 0; i < BLOCK_N / 2; ++i) {
            scores[i] = ptx::exp2_approx(fmaf(scores[i], scale, -origin[i / 2 % 2]));
            chain[i % 4] = i < 4 ? scores[i] : chain[i % 4] + scores[i];
        }
        sum_of_step[0] = chain[0] + chain[1];
        sum_of_step[1] = chain[2] + chain[3];
    }
    // Whether a sum of the warp's rows is above this.
    __device__ __forceinline__ bool any_sum_above(float limit) const {
        return __any_sync(0xffffffffu, fmaxf(sum_of_step[0], sum_of_step[1]) > limit);
    }
    __device__ __forceinline__ void multiply_output(const float (&factor)[2]) {
#pragma unroll
        for (int i = 0; i < HEAD_DIM / 2; ++i) output[i] *= factor[i / 2 % 2];
    }
    // The largest score or weight of each row, in the lane's own columns, with few registers.
    __device__ __forceinline__ void largest_by_two_chains(float (&largest)[2]) const {
        largest[0] = scores[0];
        largest[1] = scores[2];
#pragma unroll
        for (int i = 1; i < BLOCK_N / 2; ++i) largest[i / 2 % 2] = fmaxf(largest[i / 2 % 2], scores[i]);
    }
    // Chooses the origins for scores that were computed again. No product may be in flight.
    __device__ __forceinline__ void choose_origins_again() {
        float largest[2];
        largest_by_two_chains(largest);
        move_origins(largest);
        multiply_output(correction);
    }
    // Moves the origins of rows whose weights have too large a sum, so that the largest weight becomes 2^WEIGHT_SHIFT.
    // In FP8 dominant weights become larger (see `raise_weights`). No product may be in flight.
    __device__ __forceinline__ void lower_weights() {
        float largest[2], factor[2];
        largest_by_two_chains(largest);
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            const float most = group_max<4>(sum_of_step[row]), largest_of_row = group_max<4>(largest[row]);
            const float by = dominates(row, largest_of_row) ? __log2f(most) - LARGEST_EXPONENT : __log2f(largest_of_row) - WEIGHT_SHIFT;
            // The factor belongs to the origin after rounding: a large origin has few bits for `by`.
            const float to = most > LARGEST_SUM ? origin[row] + by : origin[row];
            factor[row] = ptx::exp2_approx(origin[row] - to);
            origin[row] = to;
            sum_of_step[row] *= factor[row];
        }
#pragma unroll
        for (int i = 0; i < 2 * SUMS_OF_ROW; ++i) sum[i] *= factor[i / SUMS_OF_ROW];
#pragma unroll
        for (int i = 0; i < BLOCK_N / 2; ++i) scores[i] *= factor[i / 2 % 2];
        multiply_output(factor);
    }
    // The weights have their final size.
    __device__ __forceinline__ void add_sum_of_step() {
        sum[0] += sum_of_step[0];
        sum[SUMS_OF_ROW] += sum_of_step[1];
    }

    // After a step: rescales the output if an origin has moved. No product may be in flight.
    __device__ __forceinline__ void rescale_output() {
        if (moved) multiply_output(correction);
    }

    // The sum of a row in the lane's own columns.
    __device__ __forceinline__ float own_sum(int row) const {
        float own = sum[SUMS_OF_ROW * row];
        if constexpr (SUMS_OF_ROW > 1) own += sum[SUMS_OF_ROW * row + 1];
        return own;
    }
    // The sums of the lane's own columns become those of whole rows.
    __device__ __forceinline__ void complete_sums() {
        const float sums[2] = {group_sum<4>(own_sum(0)), group_sum<4>(own_sum(1))};
#pragma unroll
        for (int i = 0; i < 2 * SUMS_OF_ROW; ++i) sum[i] = i % SUMS_OF_ROW == 0 ? sums[i / SUMS_OF_ROW] : 0.0f;
    }

    // The first row of every lane becomes the second one.
    __device__ __forceinline__ void swap_rows() {
        const auto swap = [](float& a, float& b) {
            const float before = a;
            a = b;
            b = before;
        };
#pragma unroll
        for (int i = 0; i < HEAD_DIM / 2; i += 4) {
            swap(output[i], output[i + 2]);
            swap(output[i + 1], output[i + 3]);
        }
        swap(origin[0], origin[1]);
#pragma unroll
        for (int i = 0; i < SUMS_OF_ROW; ++i) swap(sum[i], sum[SUMS_OF_ROW + i]);
    }

    // What a finished row needs besides its output.
    struct Statistics {
        float origin[2];
        float sum[2];
    };

    // Begins new rows, and returns the statistics of those before.
    __device__ __forceinline__ Statistics restart() {
        const Statistics before = {{origin[0], origin[1]}, {own_sum(0), own_sum(1)}};
        begin();
        return before;
    }
    __device__ __forceinline__ void clear_output() {
#pragma unroll
        for (int i = 0; i < HEAD_DIM / 2; ++i) output[i] = 0.0f;
    }

    // Writes the statistics of the rows from `first_row` on that exist. Returns what their outputs must be multiplied by.
    struct Factors {
        float of_row[2];
    };
    __device__ __forceinline__ static Factors finish(const Arguments& args, int batch, int head, int first_row,
                                                     Statistics statistics, float value_scale) {
        Factors factor;
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            statistics.sum[row] = group_sum<4>(statistics.sum[row]);
            // Without the slow path of a division.
            const float sum = statistics.sum[row];
            factor.of_row[row] = sum > 0.0f ? ptx::reciprocal_approx(sum) * value_scale : 0.0f;
        }
        store_statistics(args, batch, head, first_row, statistics);
        return factor;
    }

    // Writes the log-sum-exps of the rows, if they are wanted. The sums are those of whole rows.
    __device__ __forceinline__ static void store_statistics(const Arguments& args, int batch, int head, int first_row,
                                                            const Statistics& statistics) {
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            const int query = first_row + own_row() + 8 * row;
            if (args.lse != nullptr && lane() % 4 == 0 && query < args.seq_q)
                args.lse[attention::row_index(args, batch, head, query)] =
                    log_sum_exp(statistics.origin[row], statistics.sum[row]);
        }
    }
};

}  // namespace hopper
