// Online softmax of a warpgroup's 64 rows: scores, running maximum, sum and output. `rows_16bit.cuh` and `rows_fp8.cuh`
// add the rounded weights and the products with V.
//
// For each step of BLOCK_N keys and each row:
//
//   s = Q K^T                               raw scores
//   p = 2^(scale * s - running_max)         weights; `scale` contains log2 e
//   sum += p,  output += round(p) V
//
// The number that is subtracted, `running_max`, differs from the exact maximum of the keys so far:
//
// - Lazy rescale: it is raised only when an exponent exceeds the last maximum by more than RESCALE_THRESHOLD. Only then
//   sum and output are multiplied by 2^(old - new).
// - FP8: it is WEIGHT_SHIFT or FULL_SHIFT below the maximum, so that the weights use the range of the format.
// - RUNNING_MAX lazy: steps without a mask do not compute a maximum. Large weights show that it must be raised.
//
// A lane has two rows, 8 apart, and of each row 2 columns in every 8: entry i of an accumulator belongs to the lane's row
// i / 2 % 2. Four lanes share a row. Registers of a thread: BLOCK_N / 2 scores, BLOCK_N / 4 packed weights (16-bit; FP8:
// BLOCK_N / 8 twice, and the residuals), HEAD_DIM / 2 outputs, and about 30 others.
#pragma once

#include "hopper/tiles.cuh"

namespace hopper {

// Two neighbouring columns as one register of the output's type.
__device__ inline unsigned pack(float low, float high) { return ::pack(low, high, static_cast<const Output*>(nullptr)); }

// Where a warp's rows of the output are.
struct OutputPlace {
    Output* first;    // of the warp's 16 rows
    unsigned stride;  // from row to row
    int rows;         // that exist; may be more than 16 or negative
};

// A warpgroup's 64 rows of a head of the output, from row `first` on. Rows from `end` on do not exist, or are another
// sequence's.
struct OutputRows {
    int batch;
    int head;
    int first;
    int end;
};

struct ScoreRows {
    // FP8: which of the lane's rows have the full range.
    struct Ranges {
        // An addition of this to the code of a weight sets its highest bit, unless the weight is light: below the normal
        // numbers of E4M3, whose smallest code is 0x08. In rows with the full range no weight counts as light.
        unsigned light_offset[2];

        __device__ __forceinline__ bool full(int row) const { return light_offset[row] == NO_LIGHT; }
    };
    static constexpr unsigned FIND_LIGHT = 0x78787878, NO_LIGHT = 0x80808080;

    float scale;                 // raw scores to exponents of 2
    float scores[BLOCK_N / 2];   // from `exponentiate` on, the weights
    float output[HEAD_DIM / 2];
    float running_max[2];        // subtracted from the exponents, see above
    float sum[2 * SUMS_OF_ROW];  // of the weights in the lane's own columns
    float step_sum[2];           // RUNNING_MAX lazy: that of one step, which may not be in `sum` yet
    Ranges own_ranges;           // FP8, unless they are in shared memory
    float smallest_visible[2];   // FP8: see `mask`
    bool needs_rescale;          // a running maximum of the warp's rows was raised,
    float rescale_factor[2];     // and the output must be multiplied by this

    __device__ __forceinline__ explicit ScoreRows(float scale_) : scale(scale_) {
#pragma unroll
        for (int i = 0; i < BLOCK_N / 2; ++i) scores[i] = 0.0f;
#pragma unroll
        for (int i = 0; i < HEAD_DIM / 2; ++i) output[i] = 0.0f;
        begin();
    }
    // Before the first key.
    __device__ __forceinline__ void begin() {
        running_max[0] = running_max[1] = NOTHING_SEEN;
#pragma unroll
        for (int i = 0; i < 2 * SUMS_OF_ROW; ++i) sum[i] = 0.0f;
        if constexpr (FINDS_LIGHT) store_ranges({{FIND_LIGHT, FIND_LIGHT}});
    }

    // Starts into = Q K^T. `into` is usually `scores`.
    __device__ __forceinline__ static void start_scores(float (&into)[BLOCK_N / 2], unsigned queries, unsigned keys) {
        constexpr int STEPS = (HEAD_DIM * sizeof(Element) + 31) / 32;
        const unsigned long long a = wgmma::rows_along_depth<ROW_BYTES>(queries);
        const unsigned long long b = wgmma::rows_along_depth<ROW_BYTES>(keys);
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            wgmma::Products<Element, BLOCK_N>::from_shared(into, QueryTile::depth_step(a, step),
                                                           KeyTile::depth_step(b, step), step > 0);
        }
        wgmma::group_end();
    }

    // Masks the keys that the rows do not see. `visible` counts columns from the lane's own first one.
    template <int COUNT>
    __device__ __forceinline__ static void mask(float (&scores)[COUNT], const int (&visible)[2]) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            if (i / 4 * 8 + i % 2 >= visible[i / 2 % 2]) scores[i] = negative_infinity();
        }
    }
    // Masks the keys outside of the ranges that the rows see.
    __device__ __forceinline__ void mask_outside(const attention::KeyRange& upper, const attention::KeyRange& lower) {
        const int first[2] = {upper.first, lower.first};
        const unsigned count[2] = {static_cast<unsigned>(max(upper.end - upper.first, 0)),
                                   static_cast<unsigned>(max(lower.end - lower.first, 0))};
#pragma unroll
        for (int i = 0; i < BLOCK_N / 2; ++i) {
            const int row = i / 2 % 2, column = i / 4 * 8 + i % 2;
            if (static_cast<unsigned>(column - first[row]) >= count[row]) scores[i] = negative_infinity();
        }
    }
    // Softcap: raw scores become tanh(factor * s).
    __device__ __forceinline__ void cap(float factor) {
#pragma unroll
        for (int i = 0; i < BLOCK_N / 2; ++i) scores[i] = tanh_of(factor * scores[i]);
    }
    // FP8: also finds the smallest score of each row that is not masked, in the lane's own columns. At head_dim 64 there are no
    // registers for them.
    static constexpr bool MASK_FINDS_SMALLEST = FINDS_LIGHT && FORWARD && HEAD_DIM > 64;
    __device__ __forceinline__ void mask(const int (&visible)[2]) {
        if constexpr (MASK_FINDS_SMALLEST) {
            smallest_visible[0] = smallest_visible[1] = -negative_infinity();
#pragma unroll
            for (int i = 0; i < BLOCK_N / 2; ++i) {
                const int row = i / 2 % 2;
                if (i / 4 * 8 + i % 2 >= visible[row]) {
                    scores[i] = negative_infinity();
                } else {
                    smallest_visible[row] = fminf(smallest_visible[row], scores[i]);
                }
            }
        } else {
            mask(scores, visible);
        }
    }

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

    __device__ __forceinline__ Ranges load_ranges() const {
        Ranges ranges = own_ranges;
        if constexpr (RANGES_IN_SHARED) ptx::load8_shared(ranges.light_offset, light_offsets());
        return ranges;
    }
    __device__ __forceinline__ void store_ranges(const Ranges& ranges) {
        if constexpr (RANGES_IN_SHARED) {
            ptx::store8_shared(light_offsets(), ranges.light_offset);
        } else {
            own_ranges = ranges;
        }
    }

    // Whether an exponent of a row is so large that its running maximum must be raised.
    __device__ __forceinline__ bool exceeds_threshold(int row, float exponent) const {
        return exponent > running_max[row] + LARGEST_EXPONENT;
    }

    // FP8: the smallest score or weight of each row, in the lane's own columns. Masked keys do not count.
    template <bool MASKED = true>
    __device__ __forceinline__ void find_smallest(float (&smallest)[2]) const {
        smallest[0] = smallest[1] = -negative_infinity();
#pragma unroll
        for (int i = 0; i < BLOCK_N / 2; ++i)
            if (!MASKED || scores[i] != negative_infinity()) smallest[i / 2 % 2] = fminf(smallest[i / 2 % 2], scores[i]);
    }
    // FP8: whether the weight of an exponent is light.
    __device__ __forceinline__ static bool is_light(float exponent, float running_max) {
        return exponent < running_max + SMALLEST_EXPONENT;
    }

    // Raises the running maxima that were exceeded, gives rows with light weights the full range, and rescales the sums. The
    // arguments are the largest and smallest exponents of whole rows.
    __device__ __forceinline__ void move_running_max(const float (&largest)[2], const float (&smallest)[2]) {
        float to[2];
#pragma unroll
        for (int row = 0; row < 2; ++row)
            to[row] = exceeds_threshold(row, largest[row]) ? largest[row] - WEIGHT_SHIFT : running_max[row];
        if constexpr (FINDS_LIGHT) {
            Ranges ranges = load_ranges();
#pragma unroll
            for (int row = 0; row < 2; ++row) {
                if (ranges.full(row)) {
                    if (to[row] != running_max[row]) to[row] = largest[row] - FULL_SHIFT;
                } else if (is_light(smallest[row], to[row])) {
                    ranges.light_offset[row] = NO_LIGHT;
                    to[row] = fmaxf(to[row] - (FULL_SHIFT - WEIGHT_SHIFT), largest[row] - FULL_SHIFT);
                }
            }
            store_ranges(ranges);
        }
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            // The factor is computed from the rounded difference: a large running maximum has few bits.
            rescale_factor[row] = ptx::exp2_approx(running_max[row] - to[row]);
            running_max[row] = to[row];
        }
#pragma unroll
        for (int i = 0; i < 2 * SUMS_OF_ROW; ++i) sum[i] *= rescale_factor[i / SUMS_OF_ROW];
    }
    // The same for scores.
    __device__ __forceinline__ void move_running_max_for_scores(const float (&largest)[2], const float (&smallest)[2]) {
        float most[2], least[2];
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            most[row] = group_max<4>(largest[row]) * scale;
            least[row] = FINDS_LIGHT ? -group_max<4>(-smallest[row]) * scale : 0.0f;
        }
        move_running_max(most, least);
    }

    // BLOCK_SCALES: values of different blocks have different scales, but their products are added to one output. So
    // weights are in units of the scale of their values. This changes the unit of running maxima and sums from the scale
    // `now` to the scale `next`. The output does not change.
    __device__ __forceinline__ void change_value_scale(float now, float next) {
        const float ratio = __fdividef(next, now), exponent = __log2f(ratio);
        running_max[0] -= exponent;
        running_max[1] -= exponent;
#pragma unroll
        for (int i = 0; i < 2 * SUMS_OF_ROW; ++i) sum[i] *= ratio;
    }

    // Updates the running maxima for the new scores. Sets `needs_rescale`; the output is not touched. KEYS: whether
    // `mask` was called.
    enum class Keys { masked, perhaps_masked, all_visible };
    template <Keys KEYS = Keys::perhaps_masked>
    __device__ __forceinline__ void update_running_max() {
        float largest[2];
        if constexpr (INTEGER_MAX && SPLIT) {
            // There are few steps, and the first one can set a running maximum of any size.
            largest_by_integers(largest);
            if (!__all_sync(0xffffffffu, fminf(largest[0], largest[1]) > 0.0f)) largest_by_floats(largest);
        } else {
            // If no running maximum can be raised to a negative exponent, only a positive maximum matters.
            const float least = fminf(running_max[0], running_max[1]) + LARGEST_EXPONENT;
            if (INTEGER_MAX && __all_sync(0xffffffffu, least >= 0.0f)) {
                largest_by_integers(largest);
            } else {
                largest_by_floats(largest);
            }
        }
        // In most steps no running maximum of the warp's rows is raised, and lanes need not exchange their maxima.
        bool changes = exceeds_threshold(0, largest[0] * scale) || exceeds_threshold(1, largest[1] * scale);
        float smallest[2];
        if constexpr (FINDS_LIGHT) {
            if constexpr (MASK_FINDS_SMALLEST && KEYS == Keys::masked) {
                smallest[0] = smallest_visible[0];
                smallest[1] = smallest_visible[1];
            } else {
                find_smallest<KEYS != Keys::all_visible>(smallest);
            }
            const Ranges ranges = load_ranges();
#pragma unroll
            for (int row = 0; row < 2; ++row)
                changes |= !ranges.full(row) && is_light(smallest[row] * scale, running_max[row]);
        }
        needs_rescale = __any_sync(0xffffffffu, changes);
        if (needs_rescale) {
            // Integers find a positive maximum only. Beside a light weight a negative one matters, too.
            if constexpr (FINDS_LIGHT && INTEGER_MAX) largest_by_floats(largest);
            move_running_max_for_scores(largest, smallest);
        }
    }

    // Turns score i into a weight and adds it to the sum.
    __device__ __forceinline__ void exponentiate(int i) {
        scores[i] = ptx::exp2_approx(fmaf(scores[i], scale, -running_max[i / 2 % 2]));
        sum[SUMS_OF_ROW * (i / 2 % 2) + i % SUMS_OF_ROW] += scores[i];
    }
    // Turns the scores into weights and adds them up.
    __device__ __forceinline__ void exponentiate() {
        if constexpr (SUMS_OF_ROW == 1) {
            exponentiate_step();
            add_step_sum();
        } else {
#pragma unroll
            for (int i = 0; i < BLOCK_N / 2; ++i) exponentiate(i);
        }
    }

    // ---- RUNNING_MAX lazy: a running maximum is raised after the weights, if their sum in a step is too large ----
    //
    // No weight is larger than the sum of the lane's weights of its row in the step. So one comparison per row replaces
    // the maximum of its scores. If the sum is too large, the running maximum is raised and the weights are multiplied by
    // the same factor as the output: they are still floats. A weight near the largest float no longer determines its
    // score; then the scores are computed again (`scores_again.cuh`). FP8 compares the rounded weights instead of sums
    // (`rows_fp8.cuh`).

    // Turns the scores into weights with the present running maxima, and sets the sums of the step.
    __device__ __forceinline__ void exponentiate_step() {
        float chain[4];
#pragma unroll
        for (int i = 0; i < BLOCK_N / 2; ++i) {
            scores[i] = ptx::exp2_approx(fmaf(scores[i], scale, -running_max[i / 2 % 2]));
            chain[i % 4] = i < 4 ? scores[i] : chain[i % 4] + scores[i];
        }
        step_sum[0] = chain[0] + chain[1];
        step_sum[1] = chain[2] + chain[3];
    }
    // Whether the step's sum of any of the warp's rows is above this.
    __device__ __forceinline__ bool any_step_sum_above(float limit) const {
        return __any_sync(0xffffffffu, fmaxf(step_sum[0], step_sum[1]) > limit);
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
    // Updates the running maxima for scores that were computed again. No product may be in flight.
    __device__ __forceinline__ void update_running_max_again() {
        float largest[2], smallest[2];
        largest_by_two_chains(largest);
        find_smallest(smallest);
        move_running_max_for_scores(largest, smallest);
        multiply_output(rescale_factor);
    }
    // Call it when the weights of the step are final.
    __device__ __forceinline__ void add_step_sum() {
        sum[0] += step_sum[0];
        sum[SUMS_OF_ROW] += step_sum[1];
    }

    // After a step: rescales the output if a running maximum was raised. No product may be in flight.
    __device__ __forceinline__ void rescale_output() {
        if (needs_rescale) multiply_output(rescale_factor);
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
        swap(running_max[0], running_max[1]);
#pragma unroll
        for (int i = 0; i < SUMS_OF_ROW; ++i) swap(sum[i], sum[SUMS_OF_ROW + i]);
    }

    // What a finished row needs besides its output.
    struct Statistics {
        float running_max[2];
        float sum[2];
    };

    // Begins new rows, and returns the statistics of those before.
    __device__ __forceinline__ Statistics restart() {
        const Statistics before = {{running_max[0], running_max[1]}, {own_sum(0), own_sum(1)}};
        begin();
        return before;
    }
    __device__ __forceinline__ void clear_output() {
#pragma unroll
        for (int i = 0; i < HEAD_DIM / 2; ++i) output[i] = 0.0f;
    }

    // Writes the statistics of the rows that exist. Returns what their outputs must be multiplied by.
    struct Factors {
        float of_row[2];
    };
    __device__ __forceinline__ static Factors finish(const Arguments& args, const OutputRows& rows, Statistics statistics,
                                                     float value_scale) {
        Factors factor;
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            statistics.sum[row] = group_sum<4>(statistics.sum[row]);
            // A division would have a slow path.
            const float sum = statistics.sum[row];
            factor.of_row[row] = sum > 0.0f ? ptx::reciprocal_approx(sum) * value_scale : 0.0f;
        }
        if constexpr (SERVING) {
            if (args.sinks != nullptr) add_sink(args.sinks[rows.head] * LOG2_E, statistics, factor);
        }
        store_statistics(args, rows, statistics);
        return factor;
    }
    // Adds one more weight to the sums of the rows, with this exponent.
    __device__ __forceinline__ static void add_sink(float sink, Statistics& statistics, Factors& factor) {
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            const float highest = fmaxf(statistics.running_max[row], sink);
            const float of_keys = ptx::exp2_approx(statistics.running_max[row] - highest);
            statistics.sum[row] = fmaf(statistics.sum[row], of_keys, ptx::exp2_approx(sink - highest));
            statistics.running_max[row] = highest;
            factor.of_row[row] = ptx::reciprocal_approx(statistics.sum[row]) * of_keys;
        }
    }

    // Writes the log-sum-exps of the rows, if they are wanted. The sums are those of whole rows.
    __device__ __forceinline__ static void store_statistics(const Arguments& args, const OutputRows& rows,
                                                            const Statistics& statistics) {
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            const int query = rows.first + own_row() + 8 * row;
            if (args.lse != nullptr && lane() % 4 == 0 && query < rows.end)
                args.lse[index_of(args, rows, query)] = log_sum_exp(statistics.running_max[row], statistics.sum[row]);
        }
    }
    // The index of a row of the output in the array of log-sum-exps.
    __device__ __forceinline__ static long long index_of(const Arguments& args, const OutputRows& rows, int row) {
        if constexpr (SERVING) {
            if (args.query_starts != nullptr)
                return static_cast<long long>(rows.head) * args.query_starts[args.batch] + row;
        }
        return attention::row_index(args, rows.batch, rows.head, row);
    }
};

}  // namespace hopper
