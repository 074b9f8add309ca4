// Online softmax of the rows of a block: scores, running maximum, sum and output of a lane's rows.
//
//   s = Q K^T                               raw scores
//   p = 2^(scale * s - running_max)         weights; `scale` contains log2 e
//   sum += p,  output += round(p) V
//
// With a softcap c, s becomes tanh(softmax_scale * s / c), and the scale is c.
//
// Entry i of an accumulator belongs to the lane's upper row if i / 2 is even, and to its lower row otherwise; with ROWS 32
// there are no lower rows, and their weights are zeros. Four lanes share a row.
#pragma once

#include "hopper-decode/work.cuh"

namespace decode {

__device__ inline unsigned pack(float low, float high) { return ::pack(low, high, static_cast<const Element*>(nullptr)); }

struct Rows {
    const float scale;          // raw scores to exponents of 2
    float scores[BLOCK_N / 2];  // from `exponentiate` on, the weights
    unsigned weights[BLOCK_N / 4] = {};
    float output[HEAD_DIM / 2];
    float running_max[ROWS_OF_LANE];
    float sum[ROWS_OF_LANE];    // of the weights in the lane's own columns

    __device__ __forceinline__ explicit Rows(float scale_) : scale(scale_) {
#pragma unroll
        for (int i = 0; i < BLOCK_N / 2; ++i) scores[i] = 0.0f;
        begin();
    }
    // Before the first key.
    __device__ __forceinline__ void begin() {
#pragma unroll
        for (int i = 0; i < HEAD_DIM / 2; ++i) output[i] = 0.0f;
#pragma unroll
        for (int row = 0; row < ROWS_OF_LANE; ++row) {
            running_max[row] = NOTHING_SEEN;
            sum[row] = 0.0f;
        }
    }

    // Starts scores = Q K^T.
    __device__ __forceinline__ void start_scores(unsigned keys) {
        const unsigned long long a = wgmma::rows_along_depth<tma::ROW_BYTES>(in_shared(smem::q_tile::offset));
        const unsigned long long b = wgmma::rows_along_depth<tma::ROW_BYTES>(keys);
        wgmma::fence();
#pragma unroll
        for (int step = 0; step < HEAD_DIM / 16; ++step)
            wgmma::Products<Element, BLOCK_N>::from_shared(scores, QueryTile::depth_step(a, step),
                                                           KeyTile::depth_step(b, step), step > 0);
        wgmma::group_end();
    }
    // Starts output += weights V.
    __device__ __forceinline__ void start_output(unsigned values) {
        wgmma::fence();
#pragma unroll
        for (int step = 0; step < BLOCK_N / 16; ++step) {
            const unsigned* a = weights + 4 * step;
            wgmma::Products<Element, HEAD_DIM>::from_registers(output, a[0], a[1], a[2], a[3],
                                                               KeyTile::rows_step(values, step), 1);
        }
        wgmma::group_end();
    }

    // Hides the keys that the rows do not see. `visible` counts columns from the lane's own first one.
    __device__ __forceinline__ void mask(const int (&visible)[ROWS_OF_LANE]) {
#pragma unroll
        for (int i = 0; i < BLOCK_N / 2; ++i) {
            const int row = i / 2 % 2;
            if (row < ROWS_OF_LANE && i / 4 * 8 + i % 2 >= visible[row]) scores[i] = negative_infinity();
        }
    }

    // The same for keys before the first that a row sees.
    __device__ __forceinline__ void mask_before(const int (&first)[ROWS_OF_LANE]) {
#pragma unroll
        for (int i = 0; i < BLOCK_N / 2; ++i) {
            const int row = i / 2 % 2;
            if (row < ROWS_OF_LANE && i / 4 * 8 + i % 2 < first[row]) scores[i] = negative_infinity();
        }
    }

    // Raw scores become tanh(factor * s); the scale is then that of the cap.
    __device__ __forceinline__ void cap(float factor) {
#pragma unroll
        for (int i = 0; i < BLOCK_N / 2; ++i) {
            if (i / 2 % 2 >= ROWS_OF_LANE) continue;
            scores[i] = tanh_of(factor * scores[i]);
        }
    }

    // Follows the running maxima of the new scores, and rescales sums and output. No product may be in flight.
    __device__ __forceinline__ void update_running_max() {
        float largest[ROWS_OF_LANE];
        bool exceeded = false;
#pragma unroll
        for (int row = 0; row < ROWS_OF_LANE; ++row) {
            float chain[2] = {scores[2 * row], scores[2 * row + 1]};
#pragma unroll
            for (int i = 4 + 2 * row; i < BLOCK_N / 2; i += 4) {
                chain[0] = fmaxf(chain[0], scores[i]);
                chain[1] = fmaxf(chain[1], scores[i + 1]);
            }
            largest[row] = group_max<4>(fmaxf(chain[0], chain[1])) * scale;
            exceeded = exceeded || largest[row] > running_max[row];
        }
        if (!__any_sync(0xffffffffu, exceeded)) return;
        float factor[ROWS_OF_LANE];
#pragma unroll
        for (int row = 0; row < ROWS_OF_LANE; ++row) {
            const float to = fmaxf(running_max[row], largest[row]);
            factor[row] = ptx::exp2_approx(running_max[row] - to);
            running_max[row] = to;
            sum[row] *= factor[row];
        }
#pragma unroll
        for (int i = 0; i < HEAD_DIM / 2; ++i)
            if (i / 2 % 2 < ROWS_OF_LANE) output[i] *= factor[i / 2 % 2];
    }

    // Turns the scores into weights, adds them up and packs them as a left factor.
    __device__ __forceinline__ void exponentiate() {
        float odd[ROWS_OF_LANE] = {};
#pragma unroll
        for (int i = 0; i < BLOCK_N / 2; i += 2) {
            const int row = i / 2 % 2;
            if (row >= ROWS_OF_LANE) continue;
            scores[i] = ptx::exp2_approx(fmaf(scores[i], scale, -running_max[row]));
            scores[i + 1] = ptx::exp2_approx(fmaf(scores[i + 1], scale, -running_max[row]));
            sum[row] += scores[i];
            odd[row] += scores[i + 1];
            weights[i / 2] = pack(scores[i], scores[i + 1]);
        }
#pragma unroll
        for (int row = 0; row < ROWS_OF_LANE; ++row) sum[row] += odd[row];
    }

    // The sums of the lane's own columns become those of whole rows.
    __device__ __forceinline__ void complete_sums() {
#pragma unroll
        for (int row = 0; row < ROWS_OF_LANE; ++row) sum[row] = group_sum<4>(sum[row]);
    }

    // Calls `store(of_lane, column, first, second)` with each pair of neighbouring columns of the lane's rows.
    template <typename Store>
    __device__ __forceinline__ void each_pair(const Store& store) const {
#pragma unroll
        for (int i = 0; i < HEAD_DIM / 2; i += 2) {
            const int row = i / 2 % 2;
            if (row < ROWS_OF_LANE) store(row, i / 4 * 8 + lane() % 4 * 2, output[i], output[i + 1]);
        }
    }
};

}  // namespace decode
