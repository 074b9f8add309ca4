// The one parameter of every kernel of the backward pass, and what all of them compute.
//
//   S = softmax_scale Q K^T     P = exp(S - LSE)     delta = rowsum(dO * O)     dP = dO V^T     dS = P * (dP - delta)
//   dV = P^T dO                 dQ = softmax_scale dS K                         dK = softmax_scale dS^T Q
//
// With grouped heads dK and dV are sums over the query heads of a key/value head. O and LSE are those of the forward pass.
// The struct is passed by value; a struct on the host mirrors it, without padding.
#pragma once

#include "common/arguments.cuh"
#include "common/elements.cuh"
#include "common/softmax.cuh"

namespace attention {

//                                   offset
struct BackwardArguments {
    Arguments forward;           //   0  o and lse are inputs
    const void* d_o;             // 224  [batch, heads, seq_q, head_dim] elements of the kernel's dtype
    void* dq;                    // 232  [batch, heads, seq_q, head_dim]
    void* dk;                    // 240  [batch, kv_heads, seq_k, head_dim]
    void* dv;                    // 248  [batch, kv_heads, seq_k, head_dim]
    Strides d_o_strides;         // 256
    Strides dq_strides;          // 268
    Strides dk_strides;          // 280
    Strides dv_strides;          // 292
};                               // 304 bytes, aligned to 8

static_assert(sizeof(BackwardArguments) == sizeof(Arguments) + 4 * 8 + 12 * 4 && alignof(BackwardArguments) == 8,
              "mirrored on the host");

// The first query that sees a key; seq_q if none does.
__device__ inline int first_query_of(const Arguments& args, int key) {
    if (args.mask == Mask::none) return 0;
    return min(max(key - args.diagonal, 0), args.seq_q);
}

// A row of a tensor.
template <typename Element>
__device__ Element* row_of(Element* tensor, const Strides& strides, int batch, int head, int row) {
    return head_start(tensor, strides, batch, head) +
           static_cast<unsigned long long>(static_cast<unsigned>(row)) * strides.sequence;
}

// The LSE of a query in base 2. A query that sees nothing has -inf: +inf makes all its weights 0.
__device__ inline float exponent_of_lse(float lse) {
    return lse == negative_infinity() ? -negative_infinity() : lse * LOG2_E;
}

}  // namespace attention
