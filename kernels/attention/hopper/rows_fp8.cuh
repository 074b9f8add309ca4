// The rows of E4M3 inputs. The weights are rounded to E4M3 as well, and V is transposed (`transpose.cuh`).
//
// The range of the weights. E4M3 has normal numbers from 2^-6 to 448, and steps of 2^-9 below them. FlashAttention gives the
// largest weight of a row so far 2^8 and rescales the output whenever that grows. Here a row starts with a largest weight of
// 2^WEIGHT_SHIFT, so that later weights may be 2^RESCALE_THRESHOLD times as large without a rescale. As long as all its
// weights are normal numbers, this costs no precision. At the first weight below them, before it is rounded, the row gets
// the full range: from then on it is rescaled as in FlashAttention. So no weight has fewer bits than there, whatever the
// values of the keys are (attention sinks have much weight and small values).
//
// Residuals. A weight has three bits of mantissa, which gives a relative L2 error of 0.0265 for many keys. With
// RESIDUAL_BLOCKS, for the first 32 * RESIDUAL_BLOCKS keys of a step the rounding errors of the weights (their residuals,
// rounded to E4M3 again) are multiplied by V, too. With residuals for one key in four the error is sqrt(3/4) of that.
//
// Promotion. The tensor cores add FP8 products with 13 bits and truncate. Where values do not cancel, a product soon
// becomes smaller than what is truncated: the sum of 4096 equal terms is 6% too small. So after every PROMOTION_INTERVAL
// steps the output is added to sums in shared memory, and the next product overwrites it. The sums are fp32, or bf16
// above head_dim 64: BLOCK_M * HEAD_DIM * 4 or 2 bytes.
#pragma once

#include "hopper/rows.cuh"
#include "hopper/transpose.cuh"

namespace hopper {

template <int KEYS>  // = BLOCK_N; a parameter, so that candidates of other types do not compile it
struct RowsFp8 : ScoreRows {
    static constexpr int STEPS = KEYS / 32;                        // of the product with V
    static constexpr int RESIDUAL_BLOCKS = knob::RESIDUAL_BLOCKS;  // the first of them
    static_assert(KEYS % 32 == 0 && RESIDUAL_BLOCKS <= STEPS, "FP8 multiplies 32 keys at a time");

    unsigned weights[4 * STEPS];                           // packed, the left factors of the products
    unsigned residuals[4 * RESIDUAL_BLOCKS + 1];           // of these weights
    unsigned rounded[4 * STEPS];                           // the weights of the next products
    unsigned rounded_residuals[4 * RESIDUAL_BLOCKS + 1];   // and their residuals
    unsigned zero;                                         // 0, which the compiler does not know; see `pack_weights`

    __device__ __forceinline__ explicit RowsFp8(float scale_) : ScoreRows(scale_) {
        asm volatile("mov.u32 %0, %%laneid;\n\tshr.u32 %0, %0, 5;" : "=r"(zero));
        if constexpr (PROMOTION_INTERVAL > 0) clear_promoted_sums();
    }

    // Register i of the left factor of a step. In lane q of a row it has the keys 2q, 2q+1, 2q+8 and 2q+9 of the row i % 2;
    // registers 2 and 3 have the keys 16 further on. The transposed V has the same order of keys.
    __device__ __forceinline__ unsigned round(int step, int i) const {
        const float* p = scores + 16 * step + i / 2 * 8 + i % 2 * 2;
        return e4m3::encode4(p[0], p[1], p[4], p[5]);
    }
    __device__ __forceinline__ unsigned residual(int step, int i, unsigned codes) const {
        const float* p = scores + 16 * step + i / 2 * 8 + i % 2 * 2;
        return e4m3::encode4_residuals(p[0], p[1], p[4], p[5], codes);
    }

    // Rounds weights while products are still reading the previous ones. ALL: also the first blocks and their residuals, for
    // which there are registers if no maximum is computed.
    static constexpr int LATE_BLOCKS = RESIDUAL_BLOCKS > 0 ? RESIDUAL_BLOCKS : HEAD_DIM > 128;
    template <bool ALL = false>
    __device__ __forceinline__ void round_weights() {
#pragma unroll
        for (int i = ALL ? 0 : 4 * LATE_BLOCKS; i < 4 * STEPS; ++i) rounded[i] = round(i / 4, i % 4);
        if constexpr (ALL) {
#pragma unroll
            for (int i = 0; i < 4 * RESIDUAL_BLOCKS; ++i) rounded_residuals[i] = residual(i / 4, i % 4, rounded[i]);
        }
    }
    // The same after the products: the rounded weights are the left factors at once.
    __device__ __forceinline__ void round_late() {
#pragma unroll
        for (int i = 0; i < 4 * STEPS; ++i) weights[i] = round(i / 4, i % 4);
    }
    // Makes the rounded weights the left factors. No product may be reading the previous ones. The XOR keeps the copy here:
    // the compiler would move a plain copy to a place where products are in flight, and then serialise the products. The
    // parameter is that of `round_weights`.
    template <bool ALL = false>
    __device__ __forceinline__ void pack_weights() {
#pragma unroll
        for (int i = 0; i < 4 * STEPS; ++i) {
            weights[i] = ALL || i >= 4 * LATE_BLOCKS ? rounded[i] ^ zero : round(i / 4, i % 4);
            if (i < 4 * RESIDUAL_BLOCKS)
                residuals[i] = ALL ? rounded_residuals[i] ^ zero : residual(i / 4, i % 4, weights[i]);
        }
    }

    // RUNNING_MAX lazy: whether a rounded weight of the warp's rows is 448, the largest number of the format, or light. The
    // codes of positive numbers have the order of the numbers, so four of them are compared by an addition that sets the
    // highest bit of their bytes.
    __device__ __forceinline__ bool any_out_of_range() const {
        constexpr unsigned HIGHEST_BITS = 0x80808080, FIND_LARGEST = 0x02020202;
        // Without a rescale threshold every row has the full range, and there is no memory for ranges.
        Ranges ranges{};
        if constexpr (FINDS_LIGHT) ranges = load_ranges();
        unsigned inside = HIGHEST_BITS;
#pragma unroll
        for (int i = 0; i < 4 * STEPS; ++i) {
            const unsigned codes = ROUND_LATE ? weights[i] : rounded[i];
            unsigned fits = ~(codes + FIND_LARGEST);
            if constexpr (FINDS_LIGHT) fits &= codes + ranges.light_offset[i % 2];
            inside &= fits;
        }
        return __any_sync(0xffffffffu, inside != HIGHEST_BITS);
    }

    // Moves the running maxima for weights that are too large or light. No product may be in flight.
    __device__ __forceinline__ void fit_weights() {
        float largest[2], smallest[2];
        largest_by_two_chains(largest);
        find_smallest(smallest);
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            largest[row] = running_max[row] + __log2f(group_max<4>(largest[row]));
            smallest[row] = running_max[row] + __log2f(-group_max<4>(-smallest[row]));
        }
        move_running_max(largest, smallest);
        step_sum[0] *= rescale_factor[0];
        step_sum[1] *= rescale_factor[1];
#pragma unroll
        for (int i = 0; i < BLOCK_N / 2; ++i) scores[i] *= rescale_factor[i / 2 % 2];
        multiply_output(rescale_factor);
    }

    // ---- promotion ----
    //
    // Promoted sums belong to the running maximum that the row had at the last promotion (`promoted_max`). They are
    // rescaled at the next promotion, not in every step.

    // A row without promoted sums has promoted_max = -infinity. A flag would need a register in every step.
    __device__ __forceinline__ static void clear_promoted_sums() {
        const float none[2] = {negative_infinity(), negative_infinity()};
        ptx::store8_shared(promoted_max(), none);
    }
    // What promoted sums must be multiplied by before the output is added to them.
    struct PromotionFactors {
        bool summed;  // the warp has promoted sums
        float of_row[2];
    };
    // Prepares a promotion, before scores need registers. Promoted sums are those of values with the scale 1; `value_scale`
    // is the scale of the last values. No product may be adding to the output.
    __device__ __forceinline__ PromotionFactors prepare_promotion(float value_scale) {
        const float exponent = BLOCK_SCALES ? __log2f(value_scale) : 0.0f;
        float from[2];
        const float to[2] = {running_max[0] + exponent, running_max[1] + exponent};
        ptx::load8_shared(from, promoted_max());
        PromotionFactors factors;
        factors.summed = __all_sync(0xffffffffu, from[0] != negative_infinity());
        ptx::store8_shared(promoted_max(), to);
        factors.of_row[0] = factors.summed ? ptx::exp2_approx(from[0] - to[0]) : 0.0f;
        factors.of_row[1] = factors.summed ? ptx::exp2_approx(from[1] - to[1]) : 0.0f;
        return factors;
    }

    // Adds the output to the promoted sums, 4 elements at a time: 2 of each row. The next product must replace the output.
    __device__ __forceinline__ void promote_output(const PromotionFactors& by) const {
        if constexpr (HALF_SUMS) {
            const __nv_bfloat162 factors[2] = {__float2bfloat162_rn(by.of_row[0]), __float2bfloat162_rn(by.of_row[1])};
#pragma unroll
            for (int index = 0; index < HEAD_DIM / 8; ++index) {
                unsigned words[2] = {0, 0};
                if (by.summed) ptx::load8_shared(words, promoted_sums(index));
#pragma unroll
                for (int row = 0; row < 2; ++row) {
                    const int i = 4 * index + 2 * row;
                    const __nv_bfloat162 sum = __hfma2(reinterpret_cast<const __nv_bfloat162&>(words[row]), factors[row],
                                                       __floats2bfloat162_rn(output[i], output[i + 1]));
                    words[row] = reinterpret_cast<const unsigned&>(sum);
                }
                ptx::store8_shared(promoted_sums(index), words);
            }
        } else {
#pragma unroll
            for (int index = 0; index < HEAD_DIM / 8; ++index) {
                float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
                if (by.summed) ptx::load16_shared(sums, promoted_sums(index));
#pragma unroll
                for (int i = 0; i < 4; ++i) sums[i] = fmaf(sums[i], by.of_row[i / 2], output[4 * index + i]);
                ptx::store16_shared(promoted_sums(index), sums[0], sums[1], sums[2], sums[3]);
            }
        }
    }
    __device__ __forceinline__ void add_promoted_times(const float (&factor)[2]) {
#pragma unroll
        for (int index = 0; index < HEAD_DIM / 8; ++index) {
            float sums[4];
            if constexpr (HALF_SUMS) {
                unsigned words[2];
                ptx::load8_shared(words, promoted_sums(index));
#pragma unroll
                for (int row = 0; row < 2; ++row) {
                    const float2 pair = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(words[row]));
                    sums[2 * row] = pair.x;
                    sums[2 * row + 1] = pair.y;
                }
            } else {
                ptx::load16_shared(sums, promoted_sums(index));
            }
#pragma unroll
            for (int i = 0; i < 4; ++i)
                output[4 * index + i] = fmaf(sums[i], factor[i / 2], output[4 * index + i]);
        }
    }

    // Adds the promoted sums of finished rows, whose last running maxima are given, to the output.
    __device__ __forceinline__ void add_promoted_sums(const float (&last_max)[2]) {
        float from[2];
        ptx::load8_shared(from, promoted_max());
        if (__all_sync(0xffffffffu, from[0] != negative_infinity())) {
            const float factor[2] = {ptx::exp2_approx(from[0] - last_max[0]),
                                     ptx::exp2_approx(from[1] - last_max[1])};
            add_promoted_times(factor);
        }
        clear_promoted_sums();
    }

    __device__ __forceinline__ void start_step(unsigned values, int step, bool replace) {
        const unsigned long long b = ValueTile::rows_step(values, step);
        const unsigned* a = weights + 4 * step;
        wgmma::Products<Element, HEAD_DIM>::from_registers(output, a[0], a[1], a[2], a[3], b, !(replace && step == 0));
        if (step < RESIDUAL_BLOCKS) {
            const unsigned* e = residuals + 4 * step;
            wgmma::Products<Element, HEAD_DIM>::from_registers(output, e[0], e[1], e[2], e[3], b, 1);
        }
    }
    // Starts output += weights V, or output = weights V.
    __device__ __forceinline__ void start_output(unsigned values, bool replace) {
#pragma unroll
        for (int step = 0; step < STEPS; ++step) start_step(values, step, replace);
        wgmma::group_end();
    }

    // Turns the scores into weights, adds them up, and starts output += weights V, 32 keys at a time: the tensor cores
    // multiply while the weights of the next keys are computed.
    __device__ __forceinline__ void exponentiate_and_start_output(unsigned values) {
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
#pragma unroll
            for (int i = 16 * step; i < 16 * step + 16; ++i) exponentiate(i);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                weights[4 * step + i] = round(step, i);
                if (step < RESIDUAL_BLOCKS) residuals[4 * step + i] = residual(step, i, weights[4 * step + i]);
            }
            wgmma::fence();
            start_step(values, step, false);
        }
        wgmma::group_end();
    }

    // At head_dim 256 a lane's direct stores of 8 bytes would take most of the time between two work tiles. At head_dim 64 the
    // way through shared memory is slower, but needs fewer registers.
    static constexpr bool STORES_THROUGH_SHARED = HEAD_DIM > 128 || (HEAD_DIM == 64 && FORWARD && PROMOTION_INTERVAL > 0);

    // Multiplies the output by the rows' factors and writes it, for the rows that exist.
    __device__ __forceinline__ void store_output(const Arguments& args, const OutputRows& rows, const Statistics& statistics,
                                                 const Factors& factor) {
        if constexpr (PROMOTION_INTERVAL > 0) add_promoted_sums(statistics.running_max);
        if constexpr (STORES_THROUGH_SHARED) {
            store_through_shared(args, rows, factor);
        } else {
            const int first = rows.first + warp_of_group() * 16;
            Output* const o = attention::head_start(static_cast<Output*>(args.o), args.o_strides, rows.batch, rows.head);
            const OutputPlace place{o + static_cast<unsigned long long>(first) * args.o_strides.sequence,
                                    args.o_strides.sequence, rows.end - first};
            const OwnPlace own(place);
#pragma unroll
            for (int column = 0; column < HEAD_DIM; column += 16) {
#pragma unroll
                for (int i = column / 2; i < column / 2 + 8; ++i) output[i] *= factor.of_row[i / 2 % 2];
#pragma unroll
                for (int row = 0; row < 2; ++row) store_16_columns(own, column, row);
            }
        }
    }

    // 64 columns at a time. Then a lane has 8 neighbouring columns, and 8 lanes store 128 bytes.
    __device__ __forceinline__ void store_through_shared(const Arguments& args, const OutputRows& rows,
                                                         const Factors& factor) const {
        __syncwarp();  // the memory of the sums becomes that of the output
        const int lane = lane_again();
        const int first = rows.first + warp_of_group() * 16 + lane / 8;
        Output* const out = attention::head_start(static_cast<Output*>(args.o), args.o_strides, rows.batch, rows.head) +
                            static_cast<unsigned long long>(first) * args.o_strides.sequence + lane % 8 * 8;
        const unsigned to = stored_row(lane / 4), from = stored_row(lane / 8);
#pragma unroll
        for (int column = 0; column < HEAD_DIM; column += 64) {
            if (column > 0) __syncwarp();  // every lane has read the previous columns
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                if (column + 16 * i >= HEAD_DIM) continue;
                const float* even = output + (column + 16 * i) / 2;
                const float* odd = even + 4;
                const unsigned place = ((2 * i + lane % 4 / 2) ^ (lane / 4)) * 16 + lane % 2 * 8;
#pragma unroll
                for (int row = 0; row < 2; ++row) {
                    const float by = factor.of_row[row];
                    const unsigned words[2] = {pack(even[2 * row] * by, odd[2 * row] * by),
                                               pack(even[2 * row + 1] * by, odd[2 * row + 1] * by)};
                    ptx::store8_shared(to + row * (stored_row(8) - stored_row(0)) + place, words);
                }
            }
            __syncwarp();
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                unsigned words[4];
                ptx::load16_shared(words, from + i * (stored_row(4) - stored_row(0)) +
                                              ((lane % 8) ^ ((4 * i + lane / 8) % 8)) * 16);
                if (first + 4 * i < rows.end && column + lane % 8 * 8 < HEAD_DIM)
                    ptx::store16(out + 4ull * i * args.o_strides.sequence + column, words);
            }
        }
        __syncwarp();  // every lane has read, before the next work tile is written
    }

    // Writes the first row of every lane.
    __device__ __forceinline__ void store_first_row(const OutputPlace& place) const {
        const OwnPlace own(place);
#pragma unroll
        for (int column = 0; column < HEAD_DIM; column += 16) store_16_columns(own, column, 0);
    }

    // Where the lane's two rows of the output are. The addresses stay in registers; the compiler would compute them for every
    // store.
    struct OwnPlace {
        const OutputPlace& warp;
        const int lane;
        Output* row[2];

        __device__ __forceinline__ explicit OwnPlace(const OutputPlace& warp_)
            : warp(warp_), lane(LAZY_MAX ? lane_again() : hopper::lane()) {
            row[0] = at(0);
            row[1] = at(1);
            asm volatile("" : "+l"(row[0]), "+l"(row[1]));
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
        ptx::store8(place.row[row] + column, words, place.exists(row));
    }
};

}  // namespace hopper
