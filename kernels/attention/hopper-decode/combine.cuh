// Partial results, and how they become the output.
//
// The partial result of some of a row's keys is the weighted sum of their values (fp32, not divided), the running maximum
// and the sum of the weights. Partial results are added in the order of the keys, so equal inputs give equal bits:
//
//   maximum = max_i maximum_i     factor_i = 2^(maximum_i - maximum)
//   output  = sum_i factor_i output_i / sum_i factor_i sum_i
//
// A sink is one more partial result, added last: its score is the maximum, its sum is 1 and its output 0.
//
// Equal shares: a block has at most two units that it does not have alone, its first and its last. It writes them to the
// workspace, and a second launch combines them. Clusters: a block leaves its result in shared memory, and each block of the
// cluster combines some of the columns, which it reads from the others' shared memory. With ROWS 8 a block writes its
// results to the block that combines them (`Inbox`): a store does not wait for an answer, as a load does, and no block must
// wait until the others have read its memory.
#pragma once

#include "common/cluster.cuh"
#include "hopper-decode/rows.cuh"

namespace decode {

// The statistics of a row: its running maximum, and the sum of its weights.
using Statistics = float2;

// Where a block writes the partial result of one unit.
struct Partial {
    float* outputs;          // [rows][HEAD_DIM]
    Statistics* statistics;  // [rows]

    // Writes the rows that exist.
    __device__ __forceinline__ void store(const Rows& rows, int existing) const {
        rows.each_pair([&](int of_lane, int column, float first, float second) {
            const int row = own_row(of_lane);
            if (row < existing) *reinterpret_cast<float2*>(outputs + row * HEAD_DIM + column) = make_float2(first, second);
        });
#pragma unroll
        for (int of_lane = 0; of_lane < ROWS_OF_LANE; ++of_lane) {
            const int row = own_row(of_lane);
            if (lane() % 4 == 0 && row < existing)
                statistics[row] = make_float2(rows.running_max[of_lane], rows.sum[of_lane]);
        }
    }
};

// Equal shares: the memory of a partial result. A block has two: 0 for the unit that it begins with, 1 for its last.
__device__ __forceinline__ Partial partial_in_workspace(const Arguments& args, const Work& work, int block, int which) {
    const int slots = 2 * work.blocks, rows = min(work.rows, ROWS);
    const long long first = static_cast<long long>(2 * block + which) * rows;
    float* const outputs = static_cast<float*>(args.workspace);
    Statistics* const statistics = reinterpret_cast<Statistics*>(outputs + static_cast<long long>(slots) * rows * HEAD_DIM);
    return {outputs + first * HEAD_DIM, statistics + first};
}

// Writes the log-sum-exp of a row, if it is wanted.
__device__ __forceinline__ void store_log_sum_exp(const Arguments& args, int batch, const PackedRow& row, float maximum,
                                                  float sum) {
    if (args.lse == nullptr) return;
    const long long at = SERVING ? attention::served_row_index(args, batch, row.head, row.query)
                                 : attention::row_index(args, batch, row.head, row.query);
    args.lse[at] = log_sum_exp(maximum, sum);
}

// A row with all its partial results: its statistics, and the factor of its output.
struct Finished {
    float maximum;
    float sum;
    float factor;

    __device__ __forceinline__ Finished(const Arguments& args, int head, float maximum_, float sum_)
        : maximum(maximum_), sum(sum_) {
        float of_keys = 1.0f;
        if (SERVING && args.sinks != nullptr) {
            const float sink = args.sinks[head] * LOG2_E;
            maximum = fmaxf(maximum, sink);
            of_keys = ptx::exp2_approx(maximum_ - maximum);
            sum = sum * of_keys + ptx::exp2_approx(sink - maximum);
        }
        factor = normaliser(sum, of_keys);
    }
};

__device__ __forceinline__ Element* output_row(const Arguments& args, int batch, const PackedRow& row) {
    return query_row(args, static_cast<Element*>(args.o), args.o_strides, batch, row);
}

// Writes the output of rows of which this block has all keys. The head has `existing` packed rows.
__device__ __forceinline__ void store_whole(const Arguments& args, const Work& work, const Unit& unit, const Rows& rows,
                                            int existing) {
    Element* out[ROWS_OF_LANE];
    float factor[ROWS_OF_LANE];
#pragma unroll
    for (int of_lane = 0; of_lane < ROWS_OF_LANE; ++of_lane) {
        const int packed = unit.first_row + own_row(of_lane);
        const PackedRow row(work, unit.kv_head, packed);
        const bool exists = packed < existing;
        out[of_lane] = exists ? output_row(args, unit.batch, row) : nullptr;
        const Finished finished(args, exists ? row.head : 0, rows.running_max[of_lane], rows.sum[of_lane]);
        factor[of_lane] = finished.factor;
        if (lane() % 4 == 0 && exists) store_log_sum_exp(args, unit.batch, row, finished.maximum, finished.sum);
    }
    rows.each_pair([&](int of_lane, int column, float first, float second) {
        const float by = factor[of_lane];
        if (out[of_lane] != nullptr)
            *reinterpret_cast<unsigned*>(out[of_lane] + column) = pack(first * by, second * by);
    });
}

// Four columns of a row, added up from partial results.
struct Combined {
    float maximum = NOTHING_SEEN;
    float sum = 0.0f;  // of the weights, with regard to `maximum`
    float columns[4] = {};

    // Makes room for results with this maximum.
    __device__ __forceinline__ void raise(float to) {
        to = fmaxf(maximum, to);
        const float factor = ptx::exp2_approx(maximum - to);
        maximum = to;
        sum *= factor;
#pragma unroll
        for (int i = 0; i < 4; ++i) columns[i] *= factor;
    }
    // What a partial result must be multiplied by, whose maximum is at most `maximum`.
    __device__ __forceinline__ float factor_of(const Statistics& part) const { return ptx::exp2_approx(part.x - maximum); }
    __device__ __forceinline__ void add(float factor, const float4& part) {
        columns[0] += factor * part.x;
        columns[1] += factor * part.y;
        columns[2] += factor * part.z;
        columns[3] += factor * part.w;
    }
    // Writes them; the thread with the first columns also writes the log-sum-exp.
    __device__ __forceinline__ void store(const Arguments& args, int batch, const PackedRow& row, int column) const {
        const Finished finished(args, row.head, maximum, sum);
        const float by = finished.factor;
        const unsigned words[2] = {pack(columns[0] * by, columns[1] * by), pack(columns[2] * by, columns[3] * by)};
        ptx::store8(output_row(args, batch, row) + column, words);
        if (column == 0) store_log_sum_exp(args, batch, row, finished.maximum, finished.sum);
    }
};

// Writes four columns of a partial result; the thread with the first columns also writes the statistics.
__device__ __forceinline__ void store_partial(const Partial& to, int row, int quad, const Combined& combined) {
    const float(&c)[4] = combined.columns;
    *reinterpret_cast<float4*>(to.outputs + row * HEAD_DIM + 4 * quad) = make_float4(c[0], c[1], c[2], c[3]);
    if (quad == 0) to.statistics[row] = make_float2(combined.maximum, combined.sum);
}

constexpr int QUADS = HEAD_DIM / 4;  // of columns in a row

// ---- equal shares: the second launch ----

constexpr int COMBINING_THREADS = 128;
constexpr int COMBINED_ROWS = COMBINING_THREADS / 32;  // of a block: a warp has one row

// The partial results of one row. The blocks `first` to `first + parts - 1` have its keys.
struct SharedRow {
    const Arguments& args;
    const Work& work;
    int first;
    int parts;
    int row;                 // of the row block
    int which_of_first;      // 1 if the first block began with an earlier unit; for the others this unit is the first

    __device__ __forceinline__ Partial partial(int part) const {
        return partial_in_workspace(args, work, first + part, part == 0 ? which_of_first : 0);
    }
    __device__ __forceinline__ Statistics statistics(int part) const { return partial(part).statistics[row]; }
    __device__ __forceinline__ float4 quad(int part, int quad) const {
        return *reinterpret_cast<const float4*>(partial(part).outputs + row * HEAD_DIM + 4 * quad);
    }
    // The lane's four columns. All lanes call; the statistics of 32 parts are loaded at a time, one by each lane.
    __device__ __forceinline__ Combined combine(int of_quad) const {
        Combined combined;
        for (int begin = 0; begin < parts; begin += 32) {
            const int count = min(parts - begin, 32);
            const Statistics own = lane() < count ? statistics(begin + lane()) : make_float2(NOTHING_SEEN, 0.0f);
            combined.raise(group_max<32>(own.x));
            const float own_factor = combined.factor_of(own);
            combined.sum += group_sum<32>(own_factor * own.y);
#pragma unroll 8
            for (int i = 0; i < count; ++i) {
                const float factor = __shfl_sync(0xffffffffu, own_factor, i);
                combined.add(factor, quad(begin + i, of_quad));
            }
        }
        return combined;
    }
};

// A warp combines the row with this number among all rows of all heads, if several blocks have parts of it.
__device__ __forceinline__ void combine_row(const Arguments& args, const Work& work, long long number) {
    const long long head = divided(number, work.rows);
    const int packed = static_cast<int>(number - head * work.rows);
    const int batch = static_cast<int>(divided(head, args.kv_heads));
    const int kv_head = static_cast<int>(head - static_cast<long long>(batch) * args.kv_heads);
    const Tiles of_sequence(args, batch);
    if (packed >= work.rows_of(of_sequence)) return;
    const int tiles = of_sequence.count();
    const long long of_batch = static_cast<long long>(kv_head * work.row_blocks + packed / ROWS) * tiles;
    const long long first_tile = work.tiles_before(args, batch) + of_batch;
    const int first = work.block_of(first_tile), last = work.block_of(first_tile + tiles - 1);
    if (first == last) return;  // that block has written the output
    const int which_of_first = work.share_begin(first) < first_tile ? 1 : 0;
    const SharedRow row{args, work, first, last - first + 1, packed % ROWS, which_of_first};
    constexpr int ROUNDS = (QUADS + 31) / 32;
#pragma unroll
    for (int round = 0; round < ROUNDS; ++round) {
        const int quad = 32 * round + lane();
        const Combined combined = row.combine(min(quad, QUADS - 1));
        if (quad < QUADS) combined.store(args, batch, PackedRow(work, kv_head, packed), 4 * quad);
    }
}

// The second launch. Its grid is limited, because few of many rows have several parts.
__device__ __forceinline__ void combine_shares(const Arguments& args) {
    const Work work(args, BLOCKS);
    const long long rows = static_cast<long long>(args.batch) * args.heads * args.seq_q;
    const long long step = static_cast<long long>(gridDim.x) * COMBINED_ROWS;
    ptx::await_launch_before();  // everything before this depends on the inputs only
    for (long long row = static_cast<long long>(blockIdx.x) * COMBINED_ROWS + warp(); row < rows; row += step)
        combine_row(args, work, row);
}

// ---- clusters ----

// The partial result of this block, in shared memory.
__device__ __forceinline__ Partial partial_in_shared() {
    return {reinterpret_cast<float*>(shared_memory + smem::partial_outputs::offset),
            reinterpret_cast<Statistics*>(shared_memory + smem::partial_statistics::offset)};
}

// Combines this block's part of the columns. All blocks of the cluster call it after their partial results are complete.
__device__ __forceinline__ void combine_cluster(const Arguments& args, const Work& work, const Unit& unit, int existing) {
    const int rank = blockIdx.x % BLOCKS_OF_UNIT;
    const int quads = existing * QUADS, share = (quads + BLOCKS_OF_UNIT - 1) / BLOCKS_OF_UNIT;
    const Partial own = partial_in_shared();
    for (int i = rank * share + threadIdx.x; i < min(quads, (rank + 1) * share); i += CONSUMERS) {
        const int row = i / QUADS, quad = i % QUADS;
        const unsigned statistics = ptx::shared_address(own.statistics + row);
        const unsigned outputs = ptx::shared_address(own.outputs + row * HEAD_DIM + 4 * quad);
        Statistics parts[BLOCKS_OF_UNIT];
        float4 columns[BLOCKS_OF_UNIT];
#pragma unroll
        for (int block = 0; block < BLOCKS_OF_UNIT; ++block) {
            parts[block] = cluster::load8(cluster::address(statistics, block));
            columns[block] = cluster::load16(cluster::address(outputs, block));
        }
        Combined combined;
#pragma unroll
        for (int block = 0; block < BLOCKS_OF_UNIT; ++block) combined.maximum = fmaxf(combined.maximum, parts[block].x);
#pragma unroll
        for (int block = 0; block < BLOCKS_OF_UNIT; ++block) {
            const float factor = combined.factor_of(parts[block]);
            combined.sum += factor * parts[block].y;
            combined.add(factor, columns[block]);
        }
        combined.store(args, unit.batch, PackedRow(work, unit.kv_head, unit.first_row + row), 4 * quad);
    }
}

// ROWS 8: the partial results of all blocks, as far as this block combines them. Every part has some quads of the rows.
struct Inbox {
    static constexpr int QUADS_OF_BLOCK = (8 * QUADS + BLOCKS_OF_UNIT - 1) / BLOCKS_OF_UNIT;  // at most

    // Quads of each block, of rows that exist.
    __device__ __forceinline__ static int share(int existing) {
        return (existing * QUADS + BLOCKS_OF_UNIT - 1) / BLOCKS_OF_UNIT;
    }
    __device__ __forceinline__ static float4* outputs(int part, int of_share) {
        return reinterpret_cast<float4*>(shared_memory + smem::inbox_outputs::offset) + part * QUADS_OF_BLOCK + of_share;
    }
    __device__ __forceinline__ static Statistics* statistics(int part, int of_share) {
        return reinterpret_cast<Statistics*>(shared_memory + smem::inbox_statistics::offset) + part * QUADS_OF_BLOCK +
               of_share;
    }
    // Sends four columns of this block's result to the block that combines them. Every block must have started.
    __device__ __forceinline__ static void send(int existing, int row, int quad, const Combined& own) {
        const int rank = blockIdx.x % BLOCKS_OF_UNIT, at = row * QUADS + quad, to = at / share(existing);
        const int of_share = at - to * share(existing);
        const float(&c)[4] = own.columns;
        cluster::store16(cluster::address(ptx::shared_address(outputs(rank, of_share)), to),
                         make_float4(c[0], c[1], c[2], c[3]));
        cluster::store8(cluster::address(ptx::shared_address(statistics(rank, of_share)), to),
                        make_float2(own.maximum, own.sum));
    }
    // Combines what arrived. All blocks have sent.
    __device__ __forceinline__ static void combine(const Arguments& args, const Work& work, const Unit& unit,
                                                   int existing) {
        const int rank = blockIdx.x % BLOCKS_OF_UNIT, first = rank * share(existing);
        const int count = min(existing * QUADS - first, share(existing));
#pragma unroll 1
        for (int i = threadIdx.x; i < count; i += CONSUMERS) {
            Combined combined;
#pragma unroll
            for (int part = 0; part < BLOCKS_OF_UNIT; ++part)
                combined.maximum = fmaxf(combined.maximum, statistics(part, i)->x);
#pragma unroll
            for (int part = 0; part < BLOCKS_OF_UNIT; ++part) {
                const float factor = combined.factor_of(*statistics(part, i));
                combined.sum += factor * statistics(part, i)->y;
                combined.add(factor, *outputs(part, i));
            }
            const int row = (first + i) / QUADS, quad = (first + i) % QUADS;
            combined.store(args, unit.batch, PackedRow(work, unit.kv_head, unit.first_row + row), 4 * quad);
        }
    }
};

}  // namespace decode
