// Simple and correct attention for head_dim 64 in fp16. Every kernel of this folder that does its work uses it.
//
// A block computes a tile of ROWS query rows of one head with four warps. K and V pass through shared memory, KEYS
// rows at a time, with an online softmax: lane l computes the score of key l of the step, and owns two columns of the
// output. Everything between the loads and the final rounding is fp32 in a fixed order, so equal inputs give equal
// bits.
#pragma once

#include <cuda_fp16.h>

#include "common/arguments.cuh"
#include "common/softmax.cuh"

namespace honest {

using attention::Arguments;

constexpr int D = 64, KEYS = 32, WARPS = 4, THREADS = 32 * WARPS;
constexpr int ROWS = knob::ROWS, ROWS_PER_WARP = ROWS / WARPS;

// The tile that a block computes.
struct Work {
    int tile, head, batch;
};

__device__ inline Work own_work() {
    return {static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.z)};
}

// The tile with this number among all tiles, and the number of a tile.
__device__ inline Work numbered(const Arguments& args, int number) {
    const int tiles = (args.seq_q + ROWS - 1) / ROWS;
    return {number % tiles, number / tiles % args.heads, number / tiles / args.heads};
}

__device__ inline int number_of(const Arguments& args, Work work) {
    return (work.batch * args.heads + work.head) * ((args.seq_q + ROWS - 1) / ROWS) + work.tile;
}

// Number of rows of the tile.
__device__ inline int rows_of(const Arguments& args, Work work) { return min(ROWS, args.seq_q - work.tile * ROWS); }

// Two elements of the output: columns 2 * pair and 2 * pair + 1 of a row of the tile.
__device__ inline __half2* output(const Arguments& args, Work work, int row, int pair) {
    __half* head = attention::head_start(static_cast<__half*>(args.o), args.o_strides, work.batch, work.head);
    return reinterpret_cast<__half2*>(head + (work.tile * ROWS + row) * static_cast<long long>(args.o_strides.sequence)) + pair;
}

// Options that make the output wrong. With the defaults the output is correct.
struct Options {
    bool maximum = true;           // subtract the row's maximum from its scores
    bool coarse = false;           // round the weights to three bits
    bool lse = true;               // write the log-sum-exp if it is requested
    int key_limit = 0x7fffffff;    // number of keys to use
    unsigned rows = 0xffffffffu;   // rows of the tile to compute and write
};

__device__ inline float rounded_to_three_bits(float x) {
    return __uint_as_float((__float_as_uint(x) + 0x80000u) & 0xfff00000u);
}

// Computes one tile. All threads of the block call it.
__device__ inline void attend(const Arguments& args, Work work, Options options = Options{}) {
    __shared__ float queries[ROWS][D];
    __shared__ __half2 keys[KEYS][D / 2 + 1];  // padded: lanes read a column
    __shared__ __half2 values[KEYS][D / 2];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int first = work.tile * ROWS, rows = rows_of(args, work);
    const int kv_head = attention::kv_head_of(args, work.head);
    const __half* q = attention::head_start(static_cast<const __half*>(args.q), args.q_strides, work.batch, work.head);
    const __half* k = attention::head_start(static_cast<const __half*>(args.k), args.k_strides, work.batch, kv_head);
    const __half* v = attention::head_start(static_cast<const __half*>(args.v), args.v_strides, work.batch, kv_head);
    const auto visible = [&](int row) {
        return min(options.key_limit, attention::visible_keys(args, first + min(row, rows - 1)));
    };

    __syncthreads();  // the previous tile has been read
    for (int i = threadIdx.x; i < ROWS * D; i += THREADS) {
        const long long row = first + min(i / D, rows - 1);
        queries[i / D][i % D] = __half2float(q[row * args.q_strides.sequence + i % D]) * args.softmax_scale * LOG2_E;
    }

    float maximum[ROWS_PER_WARP], sum[ROWS_PER_WARP];
    float2 out[ROWS_PER_WARP];
    for (int i = 0; i < ROWS_PER_WARP; ++i) maximum[i] = negative_infinity(), sum[i] = 0.0f, out[i] = {0.0f, 0.0f};

    for (int start = 0; start < visible(rows - 1); start += KEYS) {
        __syncthreads();  // the previous step has been read
        for (int i = threadIdx.x; i < KEYS * (D / 2); i += THREADS) {
            const int key = i / (D / 2), pair = i % (D / 2);
            const long long row = min(start + key, args.seq_k - 1);
            keys[key][pair] = reinterpret_cast<const __half2*>(k + row * args.k_strides.sequence)[pair];
            values[key][pair] = reinterpret_cast<const __half2*>(v + row * args.v_strides.sequence)[pair];
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < ROWS_PER_WARP; ++i) {
            const int row = warp * ROWS_PER_WARP + i;
            if (!(options.rows >> row & 1)) continue;
            float score = 0.0f;
#pragma unroll 4  // not more, because the corpus is compiled often
            for (int pair = 0; pair < D / 2; ++pair) {
                const float2 key = __half22float2(keys[lane][pair]);
                score = fmaf(queries[row][2 * pair], key.x, score);
                score = fmaf(queries[row][2 * pair + 1], key.y, score);
            }
            if (start + lane >= visible(row)) score = negative_infinity();
            const float before = maximum[i];
            maximum[i] = fmaxf(before, group_max<32>(score));
            const float origin = options.maximum ? exponent_origin(maximum[i]) : 0.0f;
            const float rescale = options.maximum ? exp2f(before - origin) : 1.0f;
            float weight = exp2f(score - origin);
            if (options.coarse) weight = rounded_to_three_bits(weight);
            sum[i] = fmaf(sum[i], rescale, weight);
            out[i].x *= rescale, out[i].y *= rescale;
#pragma unroll 4
            for (int key = 0; key < KEYS; ++key) {
                const float2 value = __half22float2(values[key][lane]);
                const float its_weight = __shfl_sync(0xffffffffu, weight, key);
                out[i].x = fmaf(its_weight, value.x, out[i].x);
                out[i].y = fmaf(its_weight, value.y, out[i].y);
            }
        }
    }

    for (int i = 0; i < ROWS_PER_WARP; ++i) {
        const int row = warp * ROWS_PER_WARP + i;
        const float total = group_sum<32>(sum[i]);
        const float scale = normaliser(total, 1.0f);
        if (row >= rows || !(options.rows >> row & 1)) continue;
        *output(args, work, row, lane) = __floats2half2_rn(out[i].x * scale, out[i].y * scale);
        if (args.lse != nullptr && options.lse && lane == 0)
            args.lse[attention::row_index(args, work.batch, work.head, first + row)] =
                log_sum_exp(options.maximum ? maximum[i] : 0.0f, total);
    }
}

// Calls `with(element, row, pair)` for every pair of elements of a tile's output, distributed over the block.
template <typename With>
__device__ void each_pair(const Arguments& args, Work work, With with) {
    for (int i = threadIdx.x; i < rows_of(args, work) * (D / 2); i += THREADS)
        with(output(args, work, i / (D / 2), i % (D / 2)), i / (D / 2), i % (D / 2));
}

// Writes a plausible finite number to every element without computing it.
__device__ inline void make_up(const Arguments& args, Work work) {
    each_pair(args, work, [](__half2* to, int, int pair) { *to = __floats2half2_rn(0.01f * pair, -0.01f); });
}

}  // namespace honest
