// The rows of E4M3 inputs: weights are E4M3, too, and V lies by columns (`transpose.cuh`).
//
// Three bits of a weight are few: at many keys the relative L2 error of the output is 0.0265. So some keys of a step are
// refined: their values are also multiplied by the rounding errors of their weights, which are E4M3 again. With one key
// in four refined the error is sqrt(3/4) of that. With UNREFINED_STEP some steps have no refined keys.
//
// The tensor cores add FP8 products with 13 bits and cut towards zero. Where values do not cancel, a product is soon
// smaller than what is cut: the sum of 4096 equal terms is 6% too small. With SUM_STEPS the output is added to sums in
// shared memory now and then, and begins again.
#pragma once

#include "hopper/rows.cuh"
#include "hopper/transpose.cuh"

namespace hopper {

template <int KEYS>  // = BLOCK_N; a parameter, so that candidates of other types do not compile it
struct RowsFp8 : ScoreRows {
    static constexpr int STEPS = KEYS / 32;          // of the product with V
    static constexpr int REFINED = knob::REFINED;    // of them, the first
    static_assert(KEYS % 32 == 0 && REFINED <= STEPS, "FP8 multiplies 32 keys at a time");

    unsigned weights[4 * STEPS];                     // packed, the left factors of the products
    unsigned lost[4 * REFINED];                      // their rounding errors
    unsigned rounded[4 * STEPS];                     // weights of the next products
    unsigned rounded_lost[4 * REFINED];              // their rounding errors
    unsigned zero;                                   // but the compiler does not know it; see `pack_weights`

    __device__ __forceinline__ explicit RowsFp8(float scale_) : ScoreRows(scale_) {
        asm volatile("mov.u32 %0, %%laneid;\n\tshr.u32 %0, %0, 5;" : "=r"(zero));
        if constexpr (SUM_STEPS > 0) forget_sums();
    }

    // Register i of the left factor of a step. It has the keys 2q, 2q+1, 2q+8 and 2q+9 of the row i % 2 for lane q of
    // the row; registers 2 and 3 have those 16 keys further. The transposed V has the same order of keys.
    __device__ __forceinline__ unsigned round(int step, int i) const {
        const float* p = scores + 16 * step + i / 2 * 8 + i % 2 * 2;
        return e4m3::encode4(p[0], p[1], p[4], p[5]);
    }
    __device__ __forceinline__ unsigned rounding_error(int step, int i, unsigned codes) const {
        const float* p = scores + 16 * step + i / 2 * 8 + i % 2 * 2;
        return e4m3::encode4_lost(p[0], p[1], p[4], p[5], codes);
    }

    // Rounds weights while products are still reading those before. ALL: also those of refined keys, for which there are
    // registers if the maximum needs none. REFINE: the step has refined keys.
    template <bool ALL = false, bool REFINE = true>
    __device__ __forceinline__ void round_weights() {
#pragma unroll
        for (int i = ALL ? 0 : 4 * REFINED; i < 4 * STEPS; ++i) rounded[i] = round(i / 4, i % 4);
        if constexpr (ALL && REFINE) {
#pragma unroll
            for (int i = 0; i < 4 * REFINED; ++i) rounded_lost[i] = rounding_error(i / 4, i % 4, rounded[i]);
        }
    }
    // Makes the weights left factors. No product may be reading those before. The compiler would move a plain copy to
    // where products are in flight, and then serialise them. The parameters are those of `round_weights`.
    template <bool ALL = false, bool REFINE = true>
    __device__ __forceinline__ void pack_weights() {
#pragma unroll
        for (int i = 0; i < 4 * STEPS; ++i) {
            weights[i] = ALL || i >= 4 * REFINED ? rounded[i] ^ zero : round(i / 4, i % 4);
            if (REFINE && i < 4 * REFINED) lost[i] = ALL ? rounded_lost[i] ^ zero : rounding_error(i / 4, i % 4, weights[i]);
        }
    }

    // ---- sums: the output of every SUM_STEPS steps is added to them, and the next product replaces it ----
    //
    // Sums belong to the origin that the row had when they were last added to. They are multiplied by the factor to a
    // later origin only when they are used again, so a step does not touch them.

    // If there are no sums, their origins are -infinity. A flag would need a register in every step.
    __device__ __forceinline__ static void forget_sums() {
        const float none[2] = {negative_infinity(), negative_infinity()};
        ptx::store8_shared(sum_origins(), none);
    }
    // What the sums must be multiplied by before the output is added to them.
    struct SumFactors {
        bool summed;  // the warp has sums
        float of_row[2];
    };
    // Prepares an addition to the sums, before scores need registers. Sums have the origins of values with scale 1;
    // `value_scale` is the scale of the last values. No product may be adding to the output.
    //
    // fp16 sums have origins of their own, so that the largest element of a row is in the middle of fp16's range: an
    // element of the output becomes at most 2^6, and 1023 additions do not overflow. Such an origin moves by whole numbers,
    // so that its factor is exact in fp16, and never down.
    __device__ __forceinline__ SumFactors prepare_sums(float value_scale) {
        const float exponent = BLOCK_SCALES ? __log2f(value_scale) : 0.0f;
        float from[2], to[2] = {origin[0] + exponent, origin[1] + exponent};
        ptx::load8_shared(from, sum_origins());
        SumFactors factors;
        factors.summed = __all_sync(0xffffffffu, from[0] != negative_infinity());
        if constexpr (HALF_SUMS) {
            float of_output[2];
#pragma unroll
            for (int row = 0; row < 2; ++row) {
                float largest = 1e-30f;
#pragma unroll
                for (int i = 2 * row; i < HEAD_DIM / 2; i += 4)
                    largest = fmaxf(largest, fmaxf(fabsf(output[i]), fabsf(output[i + 1])));
                const float least = to[row] + ceilf(__log2f(group_max<4>(largest))) - 5.0f;
                const float moved_to = factors.summed ? from[row] + fmaxf(ceilf(least - from[row]), 0.0f) : least;
                of_output[row] = ptx::exp2_approx(to[row] - moved_to);
                to[row] = moved_to;
            }
            multiply_output(of_output);
        }
        ptx::store8_shared(sum_origins(), to);
        factors.of_row[0] = factors.summed ? ptx::exp2_approx(from[0] - to[0]) : 0.0f;
        factors.of_row[1] = factors.summed ? ptx::exp2_approx(from[1] - to[1]) : 0.0f;
        return factors;
    }
    // Two elements of a row of the output as a term of fp16 sums.
    __device__ __forceinline__ __half2 half_output(int i) const { return __floats2half2_rn(output[i], output[i + 1]); }

    // Adds the output to the sums, 4 elements at a time: 2 of each row. The next product must replace the output.
    __device__ __forceinline__ void add_to_sums(const SumFactors& by) const {
        if constexpr (HALF_SUMS) {
            const __half2 factors[2] = {__float2half2_rn(by.of_row[0]), __float2half2_rn(by.of_row[1])};
#pragma unroll
            for (int index = 0; index < HEAD_DIM / 8; ++index) {
                unsigned words[2] = {0, 0};
                if (by.summed) ptx::load8_shared(words, output_sums(index));
#pragma unroll
                for (int row = 0; row < 2; ++row) {
                    const __half2 sum = __hfma2(reinterpret_cast<const __half2&>(words[row]), factors[row],
                                                half_output(4 * index + 2 * row));
                    words[row] = reinterpret_cast<const unsigned&>(sum);
                }
                ptx::store8_shared(output_sums(index), words);
            }
        } else {
#pragma unroll
            for (int index = 0; index < HEAD_DIM / 8; ++index) {
                float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
                if (by.summed) ptx::load16_shared(sums, output_sums(index));
#pragma unroll
                for (int i = 0; i < 4; ++i) sums[i] = fmaf(sums[i], by.of_row[i / 2], output[4 * index + i]);
                ptx::store16_shared(output_sums(index), sums[0], sums[1], sums[2], sums[3]);
            }
        }
    }
    __device__ __forceinline__ void take_sums_times(const float (&factor)[2]) {
#pragma unroll
        for (int index = 0; index < HEAD_DIM / 8; ++index) {
            float sums[4];
            if constexpr (HALF_SUMS) {
                unsigned words[2];
                ptx::load8_shared(words, output_sums(index));
#pragma unroll
                for (int row = 0; row < 2; ++row) {
                    const float2 pair = __half22float2(reinterpret_cast<const __half2&>(words[row]));
                    sums[2 * row] = pair.x;
                    sums[2 * row + 1] = pair.y;
                }
            } else {
                ptx::load16_shared(sums, output_sums(index));
            }
#pragma unroll
            for (int i = 0; i < 4; ++i)
                output[4 * index + i] = fmaf(sums[i], factor[i / 2], output[4 * index + i]);
        }
    }

    // Adds the sums of finished rows, whose last origins are given, to the output.
    __device__ __forceinline__ void take_sums(const float (&last_origin)[2]) {
        float from[2];
        ptx::load8_shared(from, sum_origins());
        if (__all_sync(0xffffffffu, from[0] != negative_infinity())) {
            const float factor[2] = {ptx::exp2_approx(from[0] - last_origin[0]),
                                     ptx::exp2_approx(from[1] - last_origin[1])};
            take_sums_times(factor);
        }
        forget_sums();
    }

    template <bool REFINE>
    __device__ __forceinline__ void start_step(unsigned values, int step, bool replace) {
        const unsigned long long b = Transposed::step(values, step);
        const unsigned* a = weights + 4 * step;
        wgmma::Products<Element, HEAD_DIM>::from_registers(output, a[0], a[1], a[2], a[3], b, !(replace && step == 0));
        if (REFINE && step < REFINED) {
            const unsigned* e = lost + 4 * step;
            wgmma::Products<Element, HEAD_DIM>::from_registers(output, e[0], e[1], e[2], e[3], b, 1);
        }
    }
    // Starts output += weights V, or output = weights V. REFINE: the weights are those of a step with refined keys.
    template <bool REFINE>
    __device__ __forceinline__ void start_output(unsigned values, bool replace) {
#pragma unroll
        for (int step = 0; step < STEPS; ++step) start_step<REFINE>(values, step, replace);
        wgmma::group_end();
    }

    // Turns the scores into weights, adds them up, and starts output += weights V, 32 keys at a time: the tensor cores
    // multiply while the next keys' weights are computed.
    __device__ __forceinline__ void weigh_and_start_output(unsigned values) {
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
#pragma unroll
            for (int i = 16 * step; i < 16 * step + 16; ++i) weigh(i);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                weights[4 * step + i] = round(step, i);
                if (step < REFINED) lost[4 * step + i] = rounding_error(step, i, weights[4 * step + i]);
            }
            wgmma::fence();
            start_step<true>(values, step, false);
        }
        wgmma::group_end();
    }

    // Multiplies the output by the rows' factors and writes it, for the rows from `first_row` on that exist.
    __device__ __forceinline__ void store_output(const Arguments& args, int batch, int head, int first_row,
                                                 const Statistics& statistics, const Factors& factor) {
        const int first = first_row + warp_of_group() * 16;
        const OutputPlace place{attention::head_start(static_cast<Output*>(args.o), args.o_strides, batch, head) +
                                    static_cast<unsigned long long>(first) * args.o_strides.sequence,
                                args.o_strides.sequence, args.seq_q - first};
        if constexpr (SUM_STEPS > 0) take_sums(statistics.origin);
        const OwnPlace own(place);
#pragma unroll
        for (int column = 0; column < HEAD_DIM; column += 16) {
#pragma unroll
            for (int i = column / 2; i < column / 2 + 8; ++i) output[i] *= factor.of_row[i / 2 % 2];
#pragma unroll
            for (int row = 0; row < 2; ++row) store_16_columns(own, column, row);
        }
    }

    // Writes the first row of every lane.
    __device__ __forceinline__ void store_first_row(const OutputPlace& place) const {
        const OwnPlace own(place);
#pragma unroll
        for (int column = 0; column < HEAD_DIM; column += 16) store_16_columns(own, column, 0);
    }

    // Where the lane's two rows of the output are. The compiler would compute it for every store. At head_dim 256 it shall:
    // otherwise the loop over the keys takes 7% longer, with the same instructions in other registers.
    static constexpr bool KEPT = HEAD_DIM <= 128;
    struct OwnPlace {
        const OutputPlace& warp;
        const int lane;
        Output* row[2];

        __device__ __forceinline__ explicit OwnPlace(const OutputPlace& warp_)
            : warp(warp_), lane(LATE_MAXIMUM ? lane_again() : hopper::lane()) {
            row[0] = at(0);
            row[1] = at(1);
            if constexpr (KEPT) asm volatile("" : "+l"(row[0]), "+l"(row[1]));
        }
        __device__ __forceinline__ Output* at(int number) const {
            return warp.first + static_cast<unsigned long long>(lane / 4) * warp.stride + lane % 4 * 4 +
                   8ull * number * warp.stride;
        }
        __device__ __forceinline__ bool exists(int number) const { return lane / 4 + 8 * number < warp.rows; }
    };

    // Accumulators of 8 even columns are followed by those of the 8 odd columns between them, so a lane has 4 neighbours,
    // and 4 lanes have a sector of 32 bytes.
    __device__ __forceinline__ void store_16_columns(const OwnPlace& place, int column, int row) const {
        const float* even = output + column / 2;
        const float* odd = even + 4;
        const unsigned words[2] = {pack(even[2 * row], odd[2 * row]), pack(even[2 * row + 1], odd[2 * row + 1])};
        if constexpr (KEPT) {
            ptx::store8(place.row[row] + column, words, place.exists(row));
        } else if (place.exists(row)) {
            ptx::store8(place.at(row) + column, words);
        }
    }
};

}  // namespace hopper
