// Softmax of rows in one pass over memory: a row stays in registers between the maximum and the output.
//
// ROW_THREADS threads of a block share a row, and a block has ROWS such groups. With CLUSTER > 1 a cluster of that many
// blocks shares one row, for few and long rows. A row is cut into 16-byte pieces (common/elements.cuh), so it may have
// any length. Thread t takes the pieces t, t + STEP, ..., at most PIECES of them:
//
//   load      all pieces before the first use
//   warp      maximum of the warp's elements, and the sum of e^(x - that maximum)          -> one share per warp
//   row       shares of all warps through shared memory (of all blocks of the cluster), with one barrier
//   output    e^(x - maximum) / sum
//
// KEEP says what stays in registers: the elements as they were loaded (the exponentials are computed twice), or the
// exponentials in fp32. STORES = streaming: the L2 cache gives up y before other data. A row of one warp needs no barrier.
// With PERSISTENT a block takes every N-th set of rows.

#include "generated.cuh"

#include "common/cluster.cuh"
#include "common/elements.cuh"
#include "common/softmax.cuh"

namespace rows_in_registers {

using Element = axis::Element<>;

using knob::CLUSTER;
using knob::Pathology;
using knob::PIECES;
using knob::ROWS;
using knob::ROW_THREADS;
constexpr int WARPS = ROW_THREADS / 32;  // of a row, in one block
constexpr int SHARES = CLUSTER * WARPS;  // of a row
constexpr int COUNT = Piece<Element>::COUNT;
constexpr bool KEEP_ELEMENTS = knob::KEEP == knob::Keep::elements;
constexpr bool STREAMING = knob::STORES == knob::Stores::streaming;
constexpr bool STRIDED = knob::PATHOLOGY == Pathology::strided;
constexpr bool SCALAR = knob::PATHOLOGY == Pathology::scalar;
constexpr bool EXTRA_BARRIERS = knob::PATHOLOGY == Pathology::barriers;
static_assert(smem::shares::dim0 == 2 && smem::shares::dim1 == ROWS && smem::shares::dim2 == SHARES, "see below");

// Combines the shares of all warps that have a part of the row. All threads of the block call. Another call may use the
// same `shares` only after a barrier that follows this call.
__device__ Share over_row(Share* shares, Share mine, unsigned rank) {
    if constexpr (SHARES == 1) return mine;
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32 % WARPS;
    Share* own = shares + rank * WARPS + warp;
    if constexpr (CLUSTER > 1) {
        if (lane < CLUSTER) cluster::store(own, lane, mine.maximum, mine.sum);
        cluster::arrive();
        cluster::wait();
    } else {
        if (lane == 0) *own = mine;
        __syncthreads();
    }
    return all_shares<SHARES>(shares);
}

}  // namespace rows_in_registers

extern "C" __global__ void __launch_bounds__(rows_in_registers::ROW_THREADS * rows_in_registers::ROWS, knob::RESIDENT)
softmax_rows(const rows_in_registers::Element* x, rows_in_registers::Element* y, int rows, int cols) {
    using namespace rows_in_registers;
    extern __shared__ __align__(16) unsigned char shared[];
    Share* shares = reinterpret_cast<Share*>(shared + smem::shares::offset);  // [2][ROWS][SHARES]

    const unsigned rank = CLUSTER > 1 ? cluster::rank() : 0;
    if constexpr (CLUSTER > 1) cluster::arrive();  // this block has started: its shared memory may be written
    const int group = threadIdx.x / ROW_THREADS, lane = rank * ROW_THREADS + threadIdx.x % ROW_THREADS;
    constexpr int STEP = STRIDED ? 1 : ROW_THREADS * CLUSTER;
    const int first_piece = STRIDED ? lane * PIECES : lane;
    int turn = 0;  // which half of `shares` is used: a fast warp may be one set of rows ahead
    for (long long first = static_cast<long long>(blockIdx.x / CLUSTER) * ROWS; first < rows;
         first += static_cast<long long>(gridDim.x / CLUSTER) * ROWS, turn ^= 1) {
        // All threads stay for the barriers, also those whose row does not exist.
        const Row<Element, SCALAR, STREAMING> row(x, y, first + group, cols, first + group < rows);
        const int pieces = row.pieces();

        Piece<Element> loaded[PIECES];
        float exponentials[PIECES][COUNT];  // not used if the elements are kept
        float maximum = negative_infinity();
#pragma unroll
        for (int i = 0; i < PIECES; ++i) {
            float nothing[COUNT];
#pragma unroll
            for (int j = 0; j < COUNT; ++j) nothing[j] = negative_infinity();
            loaded[i].set(nothing);
            if (first_piece + i * STEP < pieces) loaded[i] = row.load(first_piece + i * STEP);
        }
#pragma unroll
        for (int i = 0; i < PIECES; ++i) maximum = fmaxf(maximum, loaded[i].maximum());
        maximum = lane_max<32>(maximum);

        const float origin = origin_of(maximum);
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < PIECES; ++i) {
#pragma unroll
            for (int j = 0; j < COUNT; ++j) {
                exponentials[i][j] = exponential(loaded[i].get(j) - origin);
                sum += exponentials[i][j];
            }
            if constexpr (EXTRA_BARRIERS) __syncthreads();
        }
        sum = lane_sum<32>(sum);

        if constexpr (CLUSTER > 1) cluster::wait();  // all its blocks have started; a cluster takes one row
        const Share all = over_row(shares + (turn * ROWS + group) * SHARES, {maximum, sum}, rank);
        const float row_origin = origin_of(all.maximum), factor = 1.0f / all.sum;
        const unsigned zero = __float_as_uint(all.maximum) >> 31 & __float_as_uint(all.sum) >> 31;  // a sum has no sign
        const float rescale = exponential(maximum - row_origin) * factor;
#pragma unroll
        for (int i = 0; i < PIECES; ++i) {
            if (first_piece + i * STEP < pieces) {
                float out[COUNT];
                if (KEEP_ELEMENTS) loaded[i].renew(zero);
#pragma unroll
                for (int j = 0; j < COUNT; ++j)
                    out[j] = KEEP_ELEMENTS ? exponential(loaded[i].get(j) - row_origin) * factor
                                           : exponentials[i][j] * rescale;
                row.store(first_piece + i * STEP, out);
            }
            if constexpr (EXTRA_BARRIERS) __syncthreads();
        }
    }
}
