// Unfused attention: O = softmax(scale * Q K^T + mask) V with the scores written out to memory.
//
// One block computes one query row of one head, in the three steps of the formula:
//
//   scores   s[j] = scale * <q, k_j>                 thread t takes keys t, t + T, t + 2T, ...   -> workspace
//   softmax  p[j] = 2^(s[j] - max s)                 the same keys; maximum and sum over the block -> in place
//   product  o[d] = (sum_j p[j] * v_j[d]) / sum p    thread t takes columns t, t + T, ...
//
// Keys that the mask or the window hides are not read, nor are pages beyond a sequence's length. A sink is one more term
// of the sum of weights. Everything is fp32 between the loads and the final rounding, and every
// sum has a fixed order, so equal inputs give equal bits.
//
// Memory: the scores take batch * heads * seq_q * seq_k floats of global memory; shared memory holds the
// query row and one float per warp. The fused families are compared with this family, so it stays simple and is
// not tuned.

#include "generated.cuh"

#include "common/arguments.cuh"
#include "common/elements.cuh"
#include "common/softmax.cuh"

namespace reference {

using Element = axis::Element<e4m3::Code>;
using Output = OutputOf<Element, axis::fp8_output == axis::Fp8Output::bf16>::Type;

constexpr int HEAD_DIM = axis::head_dim;
constexpr int THREADS = knob::BLOCK_THREADS;
constexpr int WARPS = THREADS / 32;
static_assert(THREADS % 32 == 0 && smem::partials::dim0 == WARPS, "a partial result per warp");
static_assert(smem::query::dim0 == HEAD_DIM, "as the manifest lays it out");

// Combines one value per thread over the block, in a fixed order; every thread gets the result.
// The barriers also make all earlier writes of the threads visible to the whole block.
template <typename Combine>
__device__ float over_block(float* partials, float warp_value, Combine combine) {
    __syncthreads();  // the previous reduction has been read
    if (threadIdx.x % 32 == 0) partials[threadIdx.x / 32] = warp_value;
    __syncthreads();
    float result = partials[0];
    for (int warp = 1; warp < WARPS; ++warp) result = combine(result, partials[warp]);
    return result;
}

__device__ float block_max(float* partials, float x) {
    return over_block(partials, group_max<32>(x), [](float a, float b) { return fmaxf(a, b); });
}

__device__ float block_sum(float* partials, float x) {
    return over_block(partials, group_sum<32>(x), [](float a, float b) { return a + b; });
}

// <query, key>, both of HEAD_DIM elements
__device__ float dot(const float* query, const Element* key) {
    float sum = 0.0f;
    for (int d = 0; d < HEAD_DIM; ++d) sum = fmaf(query[d], to_float(key[d]), sum);
    return sum;
}

}  // namespace reference

extern "C" __global__ void __launch_bounds__(reference::THREADS)
attention_reference(const __grid_constant__ attention::Arguments args) {
    using namespace attention;
    using namespace reference;
    extern __shared__ __align__(16) unsigned char shared[];
    float* query = reinterpret_cast<float*>(shared + smem::query::offset);        // [HEAD_DIM]
    float* partials = reinterpret_cast<float*>(shared + smem::partials::offset);  // [WARPS]

    const int row = blockIdx.x, head = blockIdx.y, batch = blockIdx.z, thread = threadIdx.x;
    const int kv_head = kv_head_of(args, head);
    const SequenceSize size(args, batch);
    if (row >= size.queries) return;
    const KeyRange keys = visible(args, size, row);

    const Element* q = served_row(args, static_cast<const Element*>(args.q), args.q_strides, batch, head, row);
    const auto row_of_cache = [&](const void* tensor, const Strides& strides, int key) {
        const CachePlace place = cache_place(args, batch, key);
        return head_start(static_cast<const Element*>(tensor), strides, place.entry, kv_head) +
               static_cast<long long>(place.position) * strides.sequence;
    };
    Output* o = served_row(args, static_cast<Output*>(args.o), args.o_strides, batch, head, row);
    float* scores = static_cast<float*>(args.workspace) + row_index(args, batch, head, row) * args.seq_k;  // [seq_k]

    const float q_scale = head_scale(args.q_scale, args.heads, batch, head);
    const float k_scale = head_scale(args.k_scale, args.kv_heads, batch, kv_head);
    const float v_scale = head_scale(args.v_scale, args.kv_heads, batch, kv_head);
    const float scale = args.softmax_scale * q_scale * k_scale;
    // Scores are exponents of 2.
    const auto score_of = [&](float product) {
        const float score = scale * product;
        return LOG2_E * (args.softcap > 0.0f ? args.softcap * tanhf(score / args.softcap) : score);
    };
    const float sink = args.sinks == nullptr ? negative_infinity() : LOG2_E * args.sinks[head];

    for (int d = thread; d < HEAD_DIM; d += THREADS) query[d] = to_float(q[d]);
    __syncthreads();

    // scores, and the largest of them
    float largest = negative_infinity();
    for (int key = keys.first + thread; key < keys.end; key += THREADS) {
        scores[key] = score_of(dot(query, row_of_cache(args.k, args.k_strides, key)));
        largest = fmaxf(largest, scores[key]);
    }
    const float row_maximum = fmaxf(block_max(partials, largest), sink);

    // softmax, not yet divided by its sum
    const float origin = exponent_origin(row_maximum);
    float sum = 0.0f;
    for (int key = keys.first + thread; key < keys.end; key += THREADS) {
        scores[key] = exp2f(scores[key] - origin);
        sum += scores[key];
    }
    const float row_sum = block_sum(partials, sum) + exp2f(sink - origin);

    // product
    const float scale_out = normaliser(row_sum, v_scale);
    for (int d = thread; d < HEAD_DIM; d += THREADS) {
        float out = 0.0f;
        for (int key = keys.first; key < keys.end; ++key)
            out = fmaf(scores[key], to_float(row_of_cache(args.v, args.v_strides, key)[d]), out);
        from_float(o[d], out * scale_out);
    }
    if (args.lse != nullptr && thread == 0)
        args.lse[served_row_index(args, batch, head, row)] = log_sum_exp(row_maximum, row_sum);
}
