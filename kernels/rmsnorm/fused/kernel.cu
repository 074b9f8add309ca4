// RMSNorm with a residual in one pass over memory: a row stays in registers between the sum and the product.
//
//   h = x + residual,  y = h / sqrt(mean(h^2) + eps) * weight
//
// ROW_THREADS threads share a row, and a block has ROWS such groups. Thread t of a group takes the vectors t,
// t + ROW_THREADS, ... of VECTOR elements, at most CHUNKS of them:
//
//   load     x and residual, all vectors before the first use; with WEIGHT = early also weight
//   store h
//   load     weight with WEIGHT = late; it arrives during the sum and needs no registers before
//   sum      squares over the group: shuffles, then LEFT values per warp through shared memory
//   store y
//
// KEEP says how h stays in registers: as fp32 sums, or rounded to the element type as it is stored, in half the
// registers. STORES = streaming: the L2 cache gives up h and y before other data. A group of one warp needs no barrier.
// With PERSISTENT a block takes every gridDim.x-th set of rows. Sums are fp32 in a fixed order. Every address is a multiple
// of the vector's size because cols is a multiple of VECTOR.

#include "generated.cuh"

#include "common/elements.cuh"
#include "common/sums.cuh"

namespace fused {

using Element = axis::Element<>;

using knob::CHUNKS;
using knob::LEFT;
using knob::Pathology;
using knob::ROWS;
using knob::ROW_THREADS;
using knob::VECTOR;
constexpr int WARPS = ROW_THREADS / 32;  // of a row
constexpr bool EARLY = knob::WEIGHT == knob::Weight::early;
constexpr bool STRIDED = knob::PATHOLOGY == Pathology::strided;
constexpr bool SCALAR = knob::PATHOLOGY == Pathology::scalar;
constexpr bool EXTRA_BARRIERS = knob::PATHOLOGY == Pathology::barriers;
static_assert(smem::partials::dim0 == 2 && smem::partials::dim1 == ROWS && smem::partials::dim2 == WARPS * LEFT, "see below");

using Chunk = Vector<Element, VECTOR>;

// A vector of h in registers: fp32, or rounded.
struct Sums {
    float at[VECTOR];

    __device__ void set(const float (&sums)[VECTOR], const Chunk&) {
#pragma unroll
        for (int j = 0; j < VECTOR; ++j) at[j] = sums[j];
    }
    __device__ float get(int j) const { return at[j]; }
};
struct Rounded {
    Chunk chunk;

    __device__ void set(const float (&)[VECTOR], const Chunk& rounded) { chunk = rounded; }
    __device__ float get(int j) const { return chunk.get(j); }
};
template <knob::Keep>
struct KeptAs {
    using Type = Sums;
};
template <>
struct KeptAs<knob::Keep::rounded> {
    using Type = Rounded;
};
using Kept = KeptAs<knob::KEEP>::Type;

// The first vector of thread `lane` of a group, and the distance to its next one. STRIDED: neighbouring lanes are CHUNKS
// vectors apart.
__device__ int first_vector(int lane) { return STRIDED ? lane * CHUNKS : lane; }
constexpr int STEP = STRIDED ? 1 : ROW_THREADS;

// SCALAR: one element per instruction.
__device__ Chunk load(const Element* from) {
    if constexpr (SCALAR) {
        float elements[VECTOR];
#pragma unroll
        for (int j = 0; j < VECTOR; ++j) elements[j] = to_float(from[j]);
        Chunk chunk;
        chunk.set(elements);
        return chunk;
    } else {
        return *reinterpret_cast<const Chunk*>(from);
    }
}

__device__ void store(Element* to, const Chunk& chunk) {
    if constexpr (SCALAR) {
#pragma unroll
        for (int j = 0; j < VECTOR; ++j) from_float(to[j], chunk.get(j));
    } else if constexpr (knob::STORES == knob::Stores::streaming) {
        store16_streaming(to, reinterpret_cast<const unsigned(&)[4]>(chunk));
    } else {
        *reinterpret_cast<Chunk*>(to) = chunk;
    }
}

}  // namespace fused

extern "C" __global__ void __launch_bounds__(fused::ROW_THREADS * fused::ROWS, knob::RESIDENT)
rmsnorm_fused(const fused::Element* x, const fused::Element* residual, const fused::Element* weight, fused::Element* y,
              fused::Element* h, float eps, int rows, int cols) {
    using namespace fused;
    extern __shared__ __align__(16) unsigned char shared[];
    float* partials = reinterpret_cast<float*>(shared + smem::partials::offset);  // [2][ROWS][WARPS * LEFT]

    const int group = threadIdx.x / ROW_THREADS, lane = threadIdx.x % ROW_THREADS;
    const int own = first_vector(lane);
    int turn = 0;  // which half of `partials` is used: a fast warp may be one set of rows ahead
    for (long long first = static_cast<long long>(blockIdx.x) * ROWS; first < rows;
         first += static_cast<long long>(gridDim.x) * ROWS, turn ^= 1) {
        const long long row = first + group;
        const int count = row < rows ? (cols / VECTOR - own + STEP - 1) / STEP : 0;  // all threads stay for the barriers
        const long long start = row * cols + own * VECTOR;

        // Vectors past the end are zeros: they add nothing to the sum.
        Chunk xs[CHUNKS] = {}, residuals[CHUNKS] = {}, weights[CHUNKS] = {};
#pragma unroll
        for (int i = 0; i < CHUNKS; ++i) {
            if (i < count) {
                xs[i] = load(x + start + i * STEP * VECTOR);
                residuals[i] = load(residual + start + i * STEP * VECTOR);
            }
        }
        if constexpr (EARLY) {
#pragma unroll
            for (int i = 0; i < CHUNKS; ++i)
                if (i < count) weights[i] = load(weight + (own + i * STEP) * VECTOR);
        }

        const float per_col = __fdividef(1.0f, cols);  // while the loads travel
        Kept kept[CHUNKS];
        float squares = 0.0f;
#pragma unroll
        for (int i = 0; i < CHUNKS; ++i) {
            float sums[VECTOR];
            Chunk out;
#pragma unroll
            for (int j = 0; j < VECTOR; ++j) sums[j] = xs[i].get(j) + residuals[i].get(j);
            out.set(sums);
            if (i < count) store(h + start + i * STEP * VECTOR, out);
            kept[i].set(sums, out);
#pragma unroll
            for (int j = 0; j < VECTOR; ++j) squares = fmaf(kept[i].get(j), kept[i].get(j), squares);
            if constexpr (EXTRA_BARRIERS) __syncthreads();
        }

        if constexpr (!EARLY) {
#pragma unroll
            for (int i = 0; i < CHUNKS; ++i)
                if (i < count) weights[i] = load(weight + (own + i * STEP) * VECTOR);
        }
        float* sums_of_row = partials + (turn * ROWS + group) * WARPS * LEFT;
        float total;
        if constexpr (LEFT > 1) total = warps_sum_of_parts<WARPS, LEFT>(sums_of_row, squares);
        else total = warps_sum<WARPS>(sums_of_row, squares);
        const float factor = rsqrtf(fmaf(total, per_col, eps));
#pragma unroll
        for (int i = 0; i < CHUNKS; ++i) {
            if (i < count) {
                float scaled[VECTOR];
                Chunk out;
#pragma unroll
                for (int j = 0; j < VECTOR; ++j) scaled[j] = kept[i].get(j) * weights[i].get(j) * factor;
                out.set(scaled);
                store(y + start + i * STEP * VECTOR, out);
            }
            if constexpr (EXTRA_BARRIERS) __syncthreads();
        }
        if constexpr (knob::PERSISTENT == 0) break;
    }
}
