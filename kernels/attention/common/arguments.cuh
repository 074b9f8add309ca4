// The one parameter of every attention kernel, and the index arithmetic that goes with it.
//
//   O[b,h,i,:] = sum_j softmax_j(softmax_scale * <Q[b,h,i,:], K[b,g,j,:]>) V[b,g,j,:]
//   where g = h / (heads / kv_heads)
//
// The struct is passed by value and mirrored on the host by a `#[repr(C)]` struct: only 8-byte and 4-byte
// scalars, 8-byte ones first, no padding.
#pragma once

namespace attention {

// Distances between neighbours along one axis of a [batch, head, sequence, head_dim] tensor, in elements.
// The head_dim axis is contiguous. [B,H,S,D] is {H*S*D, S*D, D}; [B,S,H,D] is {S*H*D, D, H*D}.
struct Strides {
    long long batch;
    long long head;
    long long sequence;
};

enum class Mask : int {
    none = 0,    // every query sees every key
    causal = 1,  // query i sees key j iff j <= i + diagonal
};

//                                   offset
struct Arguments {
    const void* q;               //   0  [batch, heads, seq_q, head_dim] elements of the kernel's dtype
    const void* k;               //   8  [batch, kv_heads, seq_k, head_dim]
    const void* v;               //  16  [batch, kv_heads, seq_k, head_dim]
    void* o;                     //  24  [batch, heads, seq_q, head_dim] fp16; bf16 where the inputs are bf16
    float* lse;                  //  32  [batch, heads, seq_q] contiguous, natural logarithm; null: not wanted
    const float* q_scale;        //  40  [batch, heads] contiguous, value = code * scale; null: every scale is 1
    const float* k_scale;        //  48  [batch, kv_heads] contiguous, or null
    const float* v_scale;        //  56  [batch, kv_heads] contiguous, or null
    void* workspace;             //  64  scratch of the size the manifest declares; null where it declares none
    Strides q_strides;           //  72  rows must start on 16-byte boundaries: 8 fp16 or 16 e4m3 elements
    Strides k_strides;           //  96
    Strides v_strides;           // 120
    Strides o_strides;           // 144
    int batch;                   // 168
    int heads;                   // 172  a multiple of kv_heads
    int kv_heads;                // 176
    int seq_q;                   // 180  at least 1
    int seq_k;                   // 184  0 makes every row fully masked
    Mask mask;                   // 188
    int diagonal;                // 192  causal: seq_k - seq_q aligns bottom-right, 0 aligns top-left; may be negative
    float softmax_scale;         // 196  usually 1 / sqrt(head_dim)
};                               // 200 bytes, aligned to 8

// Nine pointers, twelve strides, eight 4-byte scalars and nothing between them: the offsets above follow from
// the order.
static_assert(sizeof(Arguments) == 9 * 8 + 12 * 8 + 8 * 4 && alignof(Arguments) == 8, "mirrored on the host");

// Query i sees the keys [0, visible_keys): none (<= 0 is possible), some, or all of them.
__device__ inline int visible_keys(const Arguments& args, int query) {
    if (args.mask == Mask::none) return args.seq_k;
    return min(args.seq_k, query + args.diagonal + 1);
}

// The key/value head that query head `head` attends to.
__device__ inline int kv_head_of(const Arguments& args, int head) {
    return head / (args.heads / args.kv_heads);
}

// First element of one head of one batch entry.
template <typename Element>
__device__ Element* head_start(Element* tensor, const Strides& strides, int batch, int head) {
    return tensor + batch * strides.batch + head * strides.head;
}

// The quantiser's scale of one head, 1 for tensors that carry none.
__device__ inline float head_scale(const float* scales, int heads, int batch, int head) {
    return scales == nullptr ? 1.0f : scales[batch * heads + head];
}

// The row (batch, head, query) among all rows: the layout of the statistics.
__device__ inline long long row_index(const Arguments& args, int batch, int head, int query) {
    return (static_cast<long long>(batch) * args.heads + head) * args.seq_q + query;
}

}  // namespace attention
