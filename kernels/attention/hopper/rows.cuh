// A warpgroup's 64 rows during the loop: scores, weights, output, and the softmax so far.
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
// Two neighbours as one register of the element type.
__device__ inline unsigned pack(float low, float high) { return pack(low, high, static_cast<const Element*>(nullptr)); }

// Per lane: of each row, 2 columns in every 8. Entry i of an accumulator belongs to the row i / 2 % 2.
struct Rows {
    const float scale;                 // raw scores to exponents of 2
    float scores[BLOCK_N / 2];         // from `weigh` on, the weights
    unsigned weights[BLOCK_N / 4];     // packed, the left factor of the next products
    float output[HEAD_DIM / 2];
    float origin[2];                   // subtracted from the exponents: the maximum so far, or up to SLACK less
    float sum[4];                      // of the weights in the lane's own columns, two per row
    bool moved;                        // an origin of the warp's rows has moved, and
    float correction[2];               // what the output must be multiplied by then

    __device__ __forceinline__ explicit Rows(float scale_) : scale(scale_) {
#pragma unroll
        for (int i = 0; i < BLOCK_N / 2; ++i) scores[i] = 0.0f;
#pragma unroll
        for (int i = 0; i < HEAD_DIM / 2; ++i) output[i] = 0.0f;
        origin[0] = origin[1] = NOTHING_SEEN;
        sum[0] = sum[1] = sum[2] = sum[3] = 0.0f;
    }

    // Starts into = Q K^T. `into` is usually `scores`.
    __device__ __forceinline__ static void start_scores(float (&into)[BLOCK_N / 2], unsigned queries, unsigned keys) {
        const unsigned long long a = wgmma::rows_along_depth(queries), b = wgmma::rows_along_depth(keys);
#pragma unroll
        for (int step = 0; step < HEAD_DIM / 16; ++step) {
            const int box = step / 4, within = step % 4 * 32;
            wgmma::Products<Element, BLOCK_N>::from_shared(into, wgmma::advance(a, box * Q_BOX_BYTES + within),
                                                           wgmma::advance(b, box * KV_BOX_BYTES + within), step > 0);
        }
        wgmma::group_end();
    }

    // Starts output += weights V.
    __device__ __forceinline__ void start_output(unsigned values) {
        const unsigned long long b = wgmma::rows_along_columns(values, KV_BOX_BYTES);
#pragma unroll
        for (int step = 0; step < BLOCK_N / 16; ++step) {
            const unsigned* a = weights + 4 * step;
            wgmma::Products<Element, HEAD_DIM>::from_registers(output, a[0], a[1], a[2], a[3],
                                                               wgmma::advance(b, step * 16 * tma::ROW_BYTES), 1);
        }
        wgmma::group_end();
    }

    // Hides the keys that the rows do not see. `visible` counts columns from the lane's own first one.
    __device__ __forceinline__ void hide(const int (&visible)[2]) {
#pragma unroll
        for (int i = 0; i < BLOCK_N / 2; ++i) {
            if (i / 4 * 8 + i % 2 >= visible[i / 2 % 2]) scores[i] = negative_infinity();
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

    // Moves the origins of rows whose maximum has grown by more than SLACK, and the sums with them.
    __device__ __forceinline__ void move_origins(const float (&largest)[2]) {
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            const float exponent = group_max<4>(largest[row]) * scale;
            const float to = exponent > origin[row] + knob::SLACK ? exponent : origin[row];
            correction[row] = ptx::exp2_approx(origin[row] - to);
            origin[row] = to;
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[i] *= correction[i / 2];
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
            const float least = fminf(origin[0], origin[1]) + knob::SLACK;
            if (INTEGER_MAXIMUM && __all_sync(0xffffffffu, least >= 0.0f)) {
                largest_by_integers(largest);
            } else {
                largest_by_floats(largest);
            }
        }
        // Mostly no origin of the warp's rows moves, and no lane needs to know another's maximum.
        moved = __any_sync(0xffffffffu, largest[0] * scale > origin[0] + knob::SLACK ||
                                            largest[1] * scale > origin[1] + knob::SLACK);
        if (moved) move_origins(largest);
    }

    // Turns the scores into weights and adds them up.
    __device__ __forceinline__ void weigh() {
#pragma unroll
        for (int i = 0; i < BLOCK_N / 2; ++i) {
            scores[i] = ptx::exp2_approx(fmaf(scores[i], scale, -origin[i / 2 % 2]));
            sum[i % 4] += scores[i];
        }
    }

    // Turns the scores into weights, adds them up, and starts output += weights V, some keys at a time: the tensor cores
    // multiply while the next keys' weights are computed.
    __device__ __forceinline__ void weigh_and_start_output(unsigned values) {
        constexpr int KEYS = BLOCK_N % 32 == 0 ? 32 : 16;
        const unsigned long long b = wgmma::rows_along_columns(values, KV_BOX_BYTES);
#pragma unroll
        for (int first = 0; first < BLOCK_N; first += KEYS) {
#pragma unroll
            for (int i = first / 2; i < (first + KEYS) / 2; ++i) {
                scores[i] = ptx::exp2_approx(fmaf(scores[i], scale, -origin[i / 2 % 2]));
                sum[i % 4] += scores[i];
            }
#pragma unroll
            for (int i = first / 4; i < (first + KEYS) / 4; ++i) weights[i] = pack(scores[2 * i], scores[2 * i + 1]);
            wgmma::fence();
#pragma unroll
            for (int step = first / 16; step < (first + KEYS) / 16; ++step) {
                const unsigned* a = weights + 4 * step;
                wgmma::Products<Element, HEAD_DIM>::from_registers(output, a[0], a[1], a[2], a[3],
                                                                   wgmma::advance(b, step * 16 * tma::ROW_BYTES), 1);
            }
        }
        wgmma::group_end();
    }

    // Makes the weights a left factor. No product may be reading them.
    __device__ __forceinline__ void pack_weights() {
#pragma unroll
        for (int i = 0; i < BLOCK_N / 4; ++i) weights[i] = pack(scores[2 * i], scores[2 * i + 1]);
    }

    // Rescales the output if an origin has moved. No product may be in flight.
    __device__ __forceinline__ void rescale_output() {
        if (!moved) return;
#pragma unroll
        for (int i = 0; i < HEAD_DIM / 2; ++i) output[i] *= correction[i / 2 % 2];
    }

    // What a finished row needs besides its output.
    struct Statistics {
        float origin[2];
        float sum[2];
    };

    // Begins new rows, and returns the statistics of those before.
    __device__ __forceinline__ Statistics restart() {
        const Statistics before = {{origin[0], origin[1]}, {sum[0] + sum[1], sum[2] + sum[3]}};
        origin[0] = origin[1] = NOTHING_SEEN;
        sum[0] = sum[1] = sum[2] = sum[3] = 0.0f;
        return before;
    }
    __device__ __forceinline__ void clear_output() {
#pragma unroll
        for (int i = 0; i < HEAD_DIM / 2; ++i) output[i] = 0.0f;
    }

    // Divides the output by the sums and writes it, and the statistics, for the rows from `first_row` on that exist.
    __device__ __forceinline__ void store(const Arguments& args, int batch, int head, int first_row,
                                          Statistics statistics) {
        float factor[2];
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            statistics.sum[row] = group_sum<4>(statistics.sum[row]);
            factor[row] = normaliser(statistics.sum[row], 1.0f);
        }
        store_statistics(args, batch, head, first_row, statistics);
        store_output(args, batch, head, first_row, factor);
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

    // Multiplies the output by the rows' factors and writes it.
    __device__ __forceinline__ void store_output(const Arguments& args, int batch, int head, int first_row,
                                                 const float (&factor)[2]) {
        // Through shared memory, 64 columns at a time: a lane then has 8 neighbouring columns, 8 lanes a whole line.
        const unsigned tile = store_tile();
        const unsigned own_line = tile + lane() % 16 * tma::ROW_BYTES;
        const int first = first_row + warp_of_group() * 16 + lane() / 8;
        Element* const out = attention::head_start(static_cast<Element*>(args.o), args.o_strides, batch, head) +
                             static_cast<unsigned long long>(first) * args.o_strides.sequence + lane() % 8 * 8;
#pragma unroll
        for (int column = 0; column < HEAD_DIM; column += 64) {
            if (column > 0) __syncwarp();  // every lane has read the columns before
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                if (column + 16 * i >= HEAD_DIM) continue;
                const float* d = output + (column + 16 * i) / 2;
                const float upper = factor[0], lower = factor[1];
                const unsigned words[4] = {pack(d[0] * upper, d[1] * upper), pack(d[2] * lower, d[3] * lower),
                                           pack(d[4] * upper, d[5] * upper), pack(d[6] * lower, d[7] * lower)};
                wgmma::store_matrix_x4(own_line + ((2 * i + lane() / 16) ^ (lane() % 8)) * 16, words);
            }
            __syncwarp();
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int row = 4 * i + lane() / 8;
                unsigned words[4];
                ptx::load16_shared(words, tile + tma::chunk_offset(row, lane() % 8));
                if (first + 4 * i < args.seq_q && column + lane() % 8 * 8 < HEAD_DIM)
                    ptx::store16(out + 4ull * i * args.o_strides.sequence + column, words);
            }
        }
        __syncwarp();  // every lane has read, before the next work tile is written
    }
};

}  // namespace hopper
