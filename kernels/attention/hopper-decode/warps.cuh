// ROWS 8: up to 8 rows, and every warp has keys of its own: a quarter of each tile.
//
// A product of a warpgroup has 64 rows, and with few rows its tensor cores and registers are mostly idle, while the steps of
// a block wait for each other. Here the keys are the left factor of `mma.sync`, 16 of them, and the rows the right one:
//
//   S^T = K Q^T      [16 keys, 8 rows]         a lane has keys lane / 4 and lane / 4 + 8 of rows 2 (lane % 4) and the next
//   O^T += V^T P^T   [16 columns, 8 rows]      a lane has columns lane / 4 and lane / 4 + 8 of the same two rows
//
// So warps wait for tiles only. The scores of the next tile are computed beside the weights and the output of the present
// one, because each of these chains has a long latency. The weights become a right factor by `movmatrix`. At the end of a
// unit the results of the four warps are added in shared memory, in the order of the warps.
#pragma once

#include "hopper-decode/combine.cuh"

namespace decode {

// d[16x8] += a[16x16] b[16x8]
__device__ inline void multiply_16x8x16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], const __half*) {
    ptx::mma_16x8x16(d, a, b[0], b[1]);
}
__device__ inline void multiply_16x8x16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                                        const __nv_bfloat16*) {
    ptx::mma_16x8x16_bf16(d, a, b[0], b[1]);
}

struct WarpRows {
    static constexpr int KEYS = BLOCK_N / 4;         // of a tile
    static constexpr int GROUPS = KEYS / 16;
    static constexpr int DEPTH_STEPS = HEAD_DIM / 16;
    // A running maximum is raised when a score exceeds it by more than this power of 2.
    static constexpr float RESCALE_THRESHOLD = 8.0f;

    const float scale;                  // raw scores to exponents of 2
    unsigned queries[DEPTH_STEPS][2];   // right factors
    float scores[GROUPS][4];            // from `exponentiate` on, the weights
    float next_scores[GROUPS][4];       // of the next tile
    float output[DEPTH_STEPS][4];
    float running_max[2];
    float sum[2];                       // of the weights of the lane's own keys

    __device__ __forceinline__ explicit WarpRows(float scale_) : scale(scale_) { begin(); }
    __device__ __forceinline__ void begin() {
#pragma unroll
        for (int i = 0; i < DEPTH_STEPS * 4; ++i) output[i / 4][i % 4] = 0.0f;
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            running_max[row] = NOTHING_SEEN;
            sum[row] = 0.0f;
        }
    }

    // The lane's own keys of a tile: this one and the one 8 below, in each group.
    __device__ __forceinline__ static int own_key(int group) { return warp() * KEYS + 16 * group + lane() / 4; }
    __device__ __forceinline__ static int own_row(int which) { return lane() % 4 * 2 + which; }

    // Loads the rows of a unit from global memory; zeros where there are none. The head has `existing` rows.
    __device__ __forceinline__ void load_queries(const Arguments& args, const Work& work, const Unit& unit, int existing) {
        const int packed = unit.first_row + lane() / 4;
        const bool exists = packed < existing;
        const PackedRow row(work, unit.kv_head, exists ? packed : 0);
        const Element* const q = query_row(args, static_cast<const Element*>(args.q), args.q_strides, unit.batch, row);
#pragma unroll
        for (int i = 0; i < DEPTH_STEPS * 2; ++i) {
            const int column = i / 2 * 16 + i % 2 * 8 + lane() % 4 * 2;
            queries[i / 2][i % 2] = exists ? *reinterpret_cast<const unsigned*>(q + column) : 0u;
        }
    }

    __device__ __forceinline__ static void multiply(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
        multiply_16x8x16(sums, a, b, static_cast<const Element*>(nullptr));
    }

    // next_scores = K Q^T
    __device__ __forceinline__ void compute_next_scores(unsigned keys) {
#pragma unroll
        for (int group = 0; group < GROUPS; ++group) {
            const int row = warp() * KEYS + 16 * group + lane() % 16;
            float sums[2][4] = {};  // two chains of products: each waits for the one before
#pragma unroll
            for (int step = 0; step < DEPTH_STEPS; ++step) {
                const int chunk = 2 * step + lane() / 16;
                unsigned a[4];
                ptx::load_matrix_x4(a, keys + step / 4 * KeyTile::BOX_BYTES + tma::chunk_offset(row, chunk % 8));
                multiply(sums[step % 2], a, queries[step]);
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) next_scores[group][i] = sums[0][i] + sums[1][i];
        }
    }
    __device__ __forceinline__ void take_next_scores() {
#pragma unroll
        for (int i = 0; i < GROUPS * 4; ++i) scores[i / 4][i % 4] = next_scores[i / 4][i % 4];
    }

    // output += V^T P^T. With HIDDEN, keys outside of a range count as zeros: their memory may hold NaN. `first_key` is that of
    // the tile.
    template <bool HIDDEN>
    __device__ __forceinline__ void add_values(unsigned values, const attention::KeyRange& needed, int first_key) {
#pragma unroll
        for (int group = 0; group < GROUPS; ++group) {
            const float* const w = scores[group];
            const unsigned weights[2] = {ptx::transpose_matrix(pack(w[0], w[1])), ptx::transpose_matrix(pack(w[2], w[3]))};
            const int first = warp() * KEYS + 16 * group, row = first + lane() / 16 * 8 + lane() % 8;
            unsigned shown[2];
            if constexpr (HIDDEN) {
                const auto is_needed = [&](int key) { return key >= needed.first && key < needed.end; };
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int key = first_key + first + 8 * half + lane() % 4 * 2;
                    shown[half] = (is_needed(key) ? 0xffffu : 0u) | (is_needed(key + 1) ? 0xffff0000u : 0u);
                }
            }
#pragma unroll
            for (int step = 0; step < DEPTH_STEPS; ++step) {
                const int chunk = 2 * step + lane() / 8 % 2;
                unsigned a[4];
                ptx::load_matrix_x4_transposed(
                    a, values + step / 4 * KeyTile::BOX_BYTES + tma::chunk_offset(row, chunk % 8));
                if constexpr (HIDDEN) {
#pragma unroll
                    for (int i = 0; i < 4; ++i) a[i] &= shown[i / 2];
                }
                multiply(output[step], a, weights);
            }
        }
    }

    // Hides the keys that a row does not see: the ranges of the lane's two rows.
    __device__ __forceinline__ void mask(const attention::KeyRange (&seen)[2], int first_key) {
#pragma unroll
        for (int i = 0; i < GROUPS * 4; ++i) {
            const int key = first_key + own_key(i / 4) + i % 4 / 2 * 8;
            const attention::KeyRange& range = seen[i % 2];
            if (key < range.first || key >= range.end) scores[i / 4][i % 4] = negative_infinity();
        }
    }
    __device__ __forceinline__ void cap(float factor) {
#pragma unroll
        for (int i = 0; i < GROUPS * 4; ++i) scores[i / 4][i % 4] = tanh_of(factor * scores[i / 4][i % 4]);
    }

    // Over the lanes that have the same rows.
    template <typename Combine>
    __device__ __forceinline__ static float over_keys(float x, Combine combine) {
#pragma unroll
        for (int distance = 16; distance >= 4; distance /= 2) x = combine(x, __shfl_xor_sync(0xffffffffu, x, distance));
        return x;
    }

    // Raises the running maxima that the scores exceed too far, and rescales sums and output.
    __device__ __forceinline__ void update_running_max() {
        float largest[2];
        bool exceeded = false;
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            largest[row] = fmaxf(scores[0][row], scores[0][row + 2]);
#pragma unroll
            for (int group = 1; group < GROUPS; ++group)
                largest[row] = fmaxf(largest[row], fmaxf(scores[group][row], scores[group][row + 2]));
            largest[row] *= scale;
            exceeded = exceeded || largest[row] > running_max[row] + RESCALE_THRESHOLD;
        }
        if (!__any_sync(0xffffffffu, exceeded)) return;
        float factor[2];
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            // Only the row itself decides, so its bits do not depend on the rows beside it.
            const float most = over_keys(largest[row], [](float a, float b) { return fmaxf(a, b); });
            const float to = most > running_max[row] + RESCALE_THRESHOLD ? most : running_max[row];
            factor[row] = ptx::exp2_approx(running_max[row] - to);
            running_max[row] = to;
            sum[row] *= factor[row];
        }
#pragma unroll
        for (int i = 0; i < DEPTH_STEPS * 4; ++i) output[i / 4][i % 4] *= factor[i % 2];
    }
    // Turns the scores into weights and adds them up.
    __device__ __forceinline__ void exponentiate() {
#pragma unroll
        for (int i = 0; i < GROUPS * 4; ++i) {
            float& score = scores[i / 4][i % 4];
            score = ptx::exp2_approx(fmaf(score, scale, -running_max[i % 2]));
            sum[i % 2] += score;
        }
    }

    // Leaves the results of this warp in shared memory, for `merged`.
    __device__ __forceinline__ void leave() const {
        float* const outputs = warp_outputs() + warp() * 8 * PITCH;
#pragma unroll
        for (int i = 0; i < DEPTH_STEPS * 4; ++i)
            outputs[own_row(i % 2) * PITCH + i / 4 * 16 + i % 4 / 2 * 8 + lane() / 4] = output[i / 4][i % 4];
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            const float all = over_keys(sum[row], [](float a, float b) { return a + b; });
            if (lane() < 4) warp_statistics()[warp() * 8 + own_row(row)] = make_float2(running_max[row], all);
        }
    }
    // Four columns of a row from the results of all warps.
    __device__ __forceinline__ static Combined merged(int row, int quad) {
        Combined combined;
        Statistics parts[4];
#pragma unroll
        for (int from = 0; from < 4; ++from) {
            parts[from] = warp_statistics()[from * 8 + row];
            combined.maximum = fmaxf(combined.maximum, parts[from].x);
        }
        const float* const outputs = warp_outputs();
#pragma unroll
        for (int from = 0; from < 4; ++from) {
            const float factor = combined.factor_of(parts[from]);
            combined.sum += factor * parts[from].y;
            combined.add(factor, *reinterpret_cast<const float4*>(outputs + (from * 8 + row) * PITCH + 4 * quad));
        }
        return combined;
    }

private:
    // Floats from row to row, so that a warp's stores go to 32 banks.
    static constexpr int PITCH = HEAD_DIM + 4;
    __device__ __forceinline__ static float* warp_outputs() {
        constexpr unsigned OFFSET = EQUAL_SHARES ? smem::warp_outputs::offset : smem::last_warp_outputs::offset;
        return reinterpret_cast<float*>(shared_memory + OFFSET);
    }
    __device__ __forceinline__ static Statistics* warp_statistics() {
        return reinterpret_cast<Statistics*>(shared_memory + smem::warp_statistics::offset);
    }
};

// Calls `use(row, quad, combined)` for every four columns of the rows that exist, in some thread, when all warps have left
// their results.
template <typename Use>
__device__ __forceinline__ void each_merged_quad(int existing, const Use& use) {
    consumers_sync();
#pragma unroll 1
    for (int i = threadIdx.x; i < existing * QUADS; i += CONSUMERS)
        use(i / QUADS, i % QUADS, WarpRows::merged(i / QUADS, i % QUADS));
}

}  // namespace decode
