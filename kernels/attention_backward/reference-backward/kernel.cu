// The gradients of attention, directly from the formulas in common/backward.cuh, without atomic additions.
//
// One block computes one row: of dQ (first launch), or of dK and dV (second launch). It takes as many keys (or queries) at a
// time as it has threads. Thread t computes P and dS of key t with the block's query; then thread t adds the products of all
// of them to the columns t, t + T, ... of the result.
//
// Everything is fp32 between the loads and the final rounding, and every sum has a fixed order, so equal inputs give equal
// bits. Keys that the mask hides are not read. The other families are compared with this one, so it stays simple and is not
// tuned.

#include "generated.cuh"

#include "common/backward.cuh"

namespace reference {

using attention::BackwardArguments;
using Element = axis::Element<void>;

constexpr int HEAD_DIM = axis::head_dim;
constexpr int THREADS = knob::BLOCK_THREADS;
constexpr int COLUMNS = (HEAD_DIM + THREADS - 1) / THREADS;  // of a thread

__device__ float to_float(float x) { return x; }
using ::to_float;

// <a, b> of two rows
template <typename A, typename B>
__device__ float dot(const A* a, const B* b) {
    float sum = 0.0f;
    for (int d = 0; d < HEAD_DIM; ++d) sum = fmaf(to_float(a[d]), to_float(b[d]), sum);
    return sum;
}
struct Row {
    const BackwardArguments& args;
    int batch, head;  // of queries

    template <typename T>
    __device__ const Element* of(const T* tensor, const attention::Strides& strides, int of_head, int row) const {
        return attention::row_of(static_cast<const Element*>(tensor), strides, batch, of_head, row);
    }
    __device__ const Element* q(int query) const { return of(args.forward.q, args.forward.q_strides, head, query); }
    __device__ const Element* o(int query) const { return of(args.forward.o, args.forward.o_strides, head, query); }
    __device__ const Element* d_o(int query) const { return of(args.d_o, args.d_o_strides, head, query); }
    __device__ const Element* k(int key) const { return of(args.forward.k, args.forward.k_strides, kv_head(), key); }
    __device__ const Element* v(int key) const { return of(args.forward.v, args.forward.v_strides, kv_head(), key); }
    __device__ int kv_head() const { return attention::kv_head_of(args.forward, head); }
    __device__ float lse(int query) const {
        return args.forward.lse[attention::row_index(args.forward, batch, head, query)];
    }
    __device__ float delta(int query) const { return dot(d_o(query), o(query)); }
};

// P and dS of a pair from its two products.
__device__ float2 factors_of(const BackwardArguments& args, float score, float dp, float lse, float delta) {
    const float p = exp2f(LOG2_E * args.forward.softmax_scale * score - attention::exponent_of_lse(lse));
    return make_float2(p, p * (dp - delta));
}

}  // namespace reference

extern "C" __global__ void __launch_bounds__(reference::THREADS)
attention_backward_queries(const __grid_constant__ attention::BackwardArguments args) {
    using namespace reference;
    extern __shared__ __align__(16) unsigned char shared[];
    float* own = reinterpret_cast<float*>(shared + smem::row::offset);          // [2][HEAD_DIM] of Q and dO
    float* factors = reinterpret_cast<float*>(shared + smem::factors::offset);  // [THREADS] dS
    const int query = blockIdx.x, thread = threadIdx.x;
    const Row row{args, static_cast<int>(blockIdx.z), static_cast<int>(blockIdx.y)};
    const int keys = max(attention::visible_keys(args.forward, query), 0);
    for (int d = thread; d < HEAD_DIM; d += THREADS) {
        own[d] = to_float(row.q(query)[d]);
        own[HEAD_DIM + d] = to_float(row.d_o(query)[d]);
    }
    __syncthreads();
    const float lse = row.lse(query), delta = row.delta(query);
    float sums[COLUMNS] = {};
    for (int first = 0; first < keys; first += THREADS) {
        const int count = min(keys - first, THREADS);
        if (thread < count) {
            const int key = first + thread;
            factors[thread] = factors_of(args, dot(own, row.k(key)), dot(own + HEAD_DIM, row.v(key)), lse, delta).y;
        }
        __syncthreads();
        for (int i = 0; i < COLUMNS; ++i) {
            const int d = thread + i * THREADS;
            if (d < HEAD_DIM)
                for (int key = 0; key < count; ++key) sums[i] = fmaf(factors[key], to_float(row.k(first + key)[d]), sums[i]);
        }
        __syncthreads();
    }
    Element* dq = attention::row_of(static_cast<Element*>(args.dq), args.dq_strides, row.batch, row.head, query);
    for (int i = 0; i < COLUMNS; ++i) {
        const int d = thread + i * THREADS;
        if (d < HEAD_DIM) from_float(dq[d], args.forward.softmax_scale * sums[i]);
    }
}

extern "C" __global__ void __launch_bounds__(reference::THREADS)
attention_backward_keys(const __grid_constant__ attention::BackwardArguments args) {
    using namespace reference;
    extern __shared__ __align__(16) unsigned char shared[];
    float* own = reinterpret_cast<float*>(shared + smem::row::offset);          // [2][HEAD_DIM] of K and V
    float* factors = reinterpret_cast<float*>(shared + smem::factors::offset);  // [2][THREADS] P and dS
    const int key = blockIdx.x, kv_head = blockIdx.y, thread = threadIdx.x;
    const int group = args.forward.heads / args.forward.kv_heads;
    Row row{args, static_cast<int>(blockIdx.z), kv_head * group};
    for (int d = thread; d < HEAD_DIM; d += THREADS) {
        own[d] = to_float(row.k(key)[d]);
        own[HEAD_DIM + d] = to_float(row.v(key)[d]);
    }
    __syncthreads();
    float dk[COLUMNS] = {}, dv[COLUMNS] = {};
    for (; row.head < (kv_head + 1) * group; ++row.head) {
        for (int first = attention::first_query_of(args.forward, key); first < args.forward.seq_q; first += THREADS) {
            const int count = min(args.forward.seq_q - first, THREADS);
            if (thread < count) {
                const int query = first + thread;
                const float2 both = factors_of(args, dot(own, row.q(query)), dot(own + HEAD_DIM, row.d_o(query)),
                                               row.lse(query), row.delta(query));
                factors[thread] = both.x;
                factors[THREADS + thread] = both.y;
            }
            __syncthreads();
            for (int i = 0; i < COLUMNS; ++i) {
                const int d = thread + i * THREADS;
                if (d >= HEAD_DIM) continue;
                for (int query = 0; query < count; ++query) {
                    dv[i] = fmaf(factors[query], to_float(row.d_o(first + query)[d]), dv[i]);
                    dk[i] = fmaf(factors[THREADS + query], to_float(row.q(first + query)[d]), dk[i]);
                }
            }
            __syncthreads();
        }
    }
    Element* dk_row = attention::row_of(static_cast<Element*>(args.dk), args.dk_strides, row.batch, kv_head, key);
    Element* dv_row = attention::row_of(static_cast<Element*>(args.dv), args.dv_strides, row.batch, kv_head, key);
    for (int i = 0; i < COLUMNS; ++i) {
        const int d = thread + i * THREADS;
        if (d >= HEAD_DIM) continue;
        from_float(dk_row[d], args.forward.softmax_scale * dk[i]);
        from_float(dv_row[d], dv[i]);
    }
}
