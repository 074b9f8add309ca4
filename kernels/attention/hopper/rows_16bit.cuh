// The rows of fp16 and bf16 inputs. The weights are rounded to the type of the inputs and stay in registers, as the left
// factor of P V. V is read as it was copied.
#pragma once

#include "hopper/rows.cuh"

namespace hopper {

template <int KEYS>  // = BLOCK_N; a parameter, so that candidates of other types do not compile it
struct Rows16Bit : ScoreRows {
    unsigned weights[KEYS / 4];  // packed, the left factor of the next products

    __device__ __forceinline__ explicit Rows16Bit(float scale_) : ScoreRows(scale_) {}

    // Starts output += weights V.
    __device__ __forceinline__ void start_output(unsigned values, bool) {
#pragma unroll
        for (int step = 0; step < KEYS / 16; ++step) {
            const unsigned* a = weights + 4 * step;
            wgmma::Products<Element, HEAD_DIM>::from_registers(output, a[0], a[1], a[2], a[3],
                                                               ValueTile::rows_step(values, step), 1);
        }
        wgmma::group_end();
    }

    // Turns the scores into weights, adds them up, and starts output += weights V, 32 keys at a time: the tensor cores
    // multiply while the weights of the next keys are computed.
    __device__ __forceinline__ void exponentiate_and_start_output(unsigned values) {
        constexpr int PART = 32;
#pragma unroll
        for (int first = 0; first < KEYS; first += PART) {
#pragma unroll
            for (int i = first / 2; i < (first + PART) / 2; ++i) exponentiate(i);
#pragma unroll
            for (int i = first / 4; i < (first + PART) / 4; ++i) weights[i] = pack(scores[2 * i], scores[2 * i + 1]);
            wgmma::fence();
#pragma unroll
            for (int step = first / 16; step < (first + PART) / 16; ++step) {
                const unsigned* a = weights + 4 * step;
                wgmma::Products<Element, HEAD_DIM>::from_registers(output, a[0], a[1], a[2], a[3],
                                                                   ValueTile::rows_step(values, step), 1);
            }
        }
        wgmma::group_end();
    }

    // 16-bit weights are packed after the products anyway.
    __device__ __forceinline__ void round_late() {}

    // Products of 16-bit types are added in fp32 and need no promotion.
    struct PromotionFactors {};
    __device__ __forceinline__ PromotionFactors prepare_promotion(float) const { return {}; }
    __device__ __forceinline__ void promote_output(const PromotionFactors&) const {}

    // RUNNING_MAX lazy: whether weights of the warp's rows may be outside of the range of their type.
    __device__ __forceinline__ bool any_out_of_range() const { return any_step_sum_above(LARGEST_SUM); }

    // Raises the running maxima of rows whose sum is too large, so that the largest weight becomes 1. No product may be in
    // flight.
    __device__ __forceinline__ void fit_weights() {
        float largest[2], factor[2];
        largest_by_two_chains(largest);
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            const float most = group_max<4>(step_sum[row]), by = __log2f(group_max<4>(largest[row]));
            // The factor is computed from the rounded difference: a large running maximum has few bits for `by`.
            const float to = most > LARGEST_SUM ? running_max[row] + by : running_max[row];
            factor[row] = ptx::exp2_approx(running_max[row] - to);
            running_max[row] = to;
            step_sum[row] *= factor[row];
        }
#pragma unroll
        for (int i = 0; i < 2 * SUMS_OF_ROW; ++i) sum[i] *= factor[i / SUMS_OF_ROW];
#pragma unroll
        for (int i = 0; i < BLOCK_N / 2; ++i) scores[i] *= factor[i / 2 % 2];
        multiply_output(factor);
    }

    // 16-bit weights are rounded when they are packed: before that, there are no registers for them.
    template <bool = false>
    __device__ __forceinline__ void round_weights() {}

    // Packs the weights as a left factor. No product may be reading the one before.
    template <bool = false>
    __device__ __forceinline__ void pack_weights() {
#pragma unroll
        for (int i = 0; i < KEYS / 4; ++i) weights[i] = pack(scores[2 * i], scores[2 * i + 1]);
    }

    // Multiplies the output by the rows' factors and writes it, for the rows that exist.
    __device__ __forceinline__ void store_output(const Arguments& args, const OutputRows& rows, const Statistics&,
                                                 const Factors& factor) {
        // Through shared memory, 64 columns at a time. Then a lane has 8 neighbouring columns, and 8 lanes store 128 bytes.
        const unsigned tile = store_tile();
        const unsigned own_line = tile + lane() % 16 * tma::ROW_BYTES;
        const int first = rows.first + warp_of_group() * 16 + lane() / 8;
        Output* const out = attention::head_start(static_cast<Output*>(args.o), args.o_strides, rows.batch, rows.head) +
                             static_cast<unsigned long long>(first) * args.o_strides.sequence + lane() % 8 * 8;
#pragma unroll
        for (int column = 0; column < HEAD_DIM; column += 64) {
            if (column > 0) __syncwarp();  // every lane has read the previous columns
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                if (column + 16 * i >= HEAD_DIM) continue;
                const float* d = output + (column + 16 * i) / 2;
                const float upper = factor.of_row[0], lower = factor.of_row[1];
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
                if (first + 4 * i < rows.end && column + lane() % 8 * 8 < HEAD_DIM)
                    ptx::store16(out + 4ull * i * args.o_strides.sequence + column, words);
            }
        }
        __syncwarp();  // every lane has read, before the next work tile is written
    }

    // Writes the first row of every lane, through shared memory: then a lane has 8 neighbouring columns, and neighbouring
    // lanes have the next.
    __device__ __forceinline__ void store_first_row(const OutputPlace& place) const {
        static_assert(KEYS > 0 && HEAD_DIM <= 128, "the tile of a warp has room for 8 rows of 128 columns");
        constexpr int CHUNKS = HEAD_DIM / 8;  // of a row
        const unsigned tile = store_tile();
#pragma unroll
        for (int i = 0; i < (HEAD_DIM + 31) / 32; ++i) {
            const float* d = output + 16 * i;
            unsigned words[4] = {pack(d[0], d[1]), pack(d[4], d[5]), 0, 0};
            if (32 * i + 16 < HEAD_DIM) {
                words[2] = pack(d[8], d[9]);
                words[3] = pack(d[12], d[13]);
            }
            wgmma::store_matrix_x4(tile + i / 2 * 1024 + tma::chunk_offset(lane() % 8, i % 2 * 4 + lane() / 8), words);
        }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < (CHUNKS + 3) / 4; ++i) {
            const int at = 32 * i + lane(), row = at / CHUNKS, chunk = at % CHUNKS;
            if (row >= 8) continue;
            unsigned words[4];
            ptx::load16_shared(words, tile + chunk / 8 * 1024 + tma::chunk_offset(row, chunk % 8));
            if (row < place.rows)
                ptx::store16(place.first + static_cast<unsigned long long>(row) * place.stride + 8 * chunk, words);
        }
    }
};

}  // namespace hopper
