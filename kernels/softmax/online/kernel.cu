// Softmax of rows of any length in two passes over memory: maximum and sum together, then the output.
//
// A thread keeps a running maximum and a running sum of e^(x - maximum); when the maximum grows, the sum is scaled. One
// block computes one row. It loads UNROLL 16-byte pieces per thread before it uses the first. The second pass finds
// the row in the L2 cache unless all resident rows together are larger.

#include "generated.cuh"

#include "common/elements.cuh"
#include "common/softmax.cuh"

namespace online {

using Element = axis::Element<>;

using knob::THREADS;
using knob::UNROLL;
constexpr int WARPS = THREADS / 32;
constexpr int COUNT = Piece<Element>::COUNT;
constexpr bool STREAMING = knob::STORES == knob::Stores::streaming;
constexpr bool SCALAR = knob::PATHOLOGY == knob::Pathology::scalar;
constexpr bool EXTRA_BARRIERS = knob::PATHOLOGY == knob::Pathology::barriers;
using BlockRow = Row<Element, SCALAR, STREAMING>;
static_assert(smem::shares::dim0 == WARPS, "a share per warp");

// Pieces first, first + THREADS, ... of the row. Those that do not exist are -infinity.
__device__ void load(Piece<Element> (&loaded)[UNROLL], const BlockRow& row, int first, int pieces) {
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) {
        float nothing[COUNT];
#pragma unroll
        for (int j = 0; j < COUNT; ++j) nothing[j] = negative_infinity();
        loaded[i].set(nothing);
        if (first + i * THREADS < pieces) loaded[i] = row.load(first + i * THREADS);
    }
    if constexpr (EXTRA_BARRIERS) __syncthreads();
}

}  // namespace online

extern "C" __global__ void __launch_bounds__(online::THREADS)
softmax_online(const online::Element* x, online::Element* y, int cols) {
    using namespace online;
    extern __shared__ __align__(16) unsigned char shared[];
    Share* shares = reinterpret_cast<Share*>(shared + smem::shares::offset);  // [WARPS]
    const BlockRow row(x, y, blockIdx.x, cols, true);
    const int pieces = row.pieces(), own = threadIdx.x;

    Share mine = {negative_infinity(), 0.0f};
    for (int first = 0; first < pieces; first += UNROLL * THREADS) {
        Piece<Element> loaded[UNROLL];
        load(loaded, row, first + own, pieces);
        float maximum = mine.maximum;
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) maximum = fmaxf(maximum, loaded[i].maximum());
        const float origin = origin_of(maximum);
        mine = {maximum, mine.sum * exponential(mine.maximum - origin)};
#pragma unroll
        for (int i = 0; i < UNROLL * COUNT; ++i) mine.sum += exponential(loaded[i / COUNT].get(i % COUNT) - origin);
    }
    const float maximum = lane_max<32>(mine.maximum);
    const float sum = lane_sum<32>(mine.sum * exponential(mine.maximum - origin_of(maximum)));
    if (threadIdx.x % 32 == 0) shares[threadIdx.x / 32] = {maximum, sum};
    __syncthreads();
    const Share all = all_shares<WARPS>(shares);

    const float origin = origin_of(all.maximum), factor = 1.0f / all.sum;
    for (int first = 0; first < pieces; first += UNROLL * THREADS) {
        Piece<Element> loaded[UNROLL];
        load(loaded, row, first + own, pieces);
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
            float out[COUNT];
#pragma unroll
            for (int j = 0; j < COUNT; ++j) out[j] = exponential(loaded[i].get(j) - origin) * factor;
            if (first + own + i * THREADS < pieces) row.store(first + own + i * THREADS, out);
        }
    }
}
