// The one parameter of every attention kernel, and the index arithmetic that goes with it.
//
//   O[b,h,i,:] = sum_j softmax_j(softmax_scale * <Q[b,h,i,:], K[b,g,j,:]>) V[b,g,j,:]
//   where g = h / (heads / kv_heads)
//
// The struct is passed by value. A `#[repr(C)]` struct on the host mirrors it, without padding. The fields that every
// launch reads first are adjacent: no cache has the parameters when a launch starts, so it waits for each of their
// cache lines (64 bytes; the first line starts 16 bytes before the struct).
#pragma once

namespace attention {

// Distances between neighbours along one axis of a [batch, head, sequence, head_dim] tensor, in elements.
// The head_dim axis is contiguous. [B,H,S,D] is {H*S*D, S*D, D}; [B,S,H,D] is {S*H*D, D, H*D}.
struct Strides {
    unsigned batch;
    unsigned head;
    unsigned sequence;
};

enum class Mask : int {
    none = 0,    // every query sees every key
    causal = 1,  // query i sees key j iff j <= i + diagonal
};

//                                   offset
struct Arguments {
    unsigned kv_head_factor;     //   0  see kv_head_of
    int seq_q;                   //   4  at least 1
    int seq_k;                   //   8  0 makes every row fully masked
    float softmax_scale;         //  12  usually 1 / sqrt(head_dim)
    Mask mask;                   //  16
    int diagonal;                //  20  causal: seq_k - seq_q aligns bottom-right, 0 aligns top-left; may be negative
    const void* q;               //  24  [batch, heads, seq_q, head_dim] elements of the kernel's dtype
    const void* k;               //  32  [batch, kv_heads, seq_k, head_dim]
    const void* v;               //  40  [batch, kv_heads, seq_k, head_dim]
    void* o;                     //  48  [batch, heads, seq_q, head_dim] fp16; bf16 if the inputs are bf16
    Strides q_strides;           //  56  rows must start on 16-byte boundaries: 8 fp16 or 16 e4m3 elements
    Strides k_strides;           //  68
    Strides v_strides;           //  80
    Strides o_strides;           //  92
    int batch;                   // 104
    int heads;                   // 108  a multiple of kv_heads
    float* lse;                  // 112  [batch, heads, seq_q] contiguous, natural logarithm; null: not requested
    const float* q_scale;        // 120  [batch, heads] contiguous, value = code * scale; null: every scale is 1
    const float* k_scale;        // 128  [batch, kv_heads] contiguous, or null
    const float* v_scale;        // 136  [batch, kv_heads] contiguous, or null
    void* workspace;             // 144  scratch of the size that the manifest declares; null if it declares none
    int kv_heads;                // 152
    int block_scales;            // 156  1: the scales are [batch, heads, blocks of positions], see BLOCK_SCALES of `hopper`
    const int* key_lengths;      // 160  [batch] keys of each sequence, at most seq_k; null: all have seq_k
    const int* page_table;       // 168  [batch, pages_of_sequence] numbers of pages; null: K and V are not in pages
    const float* sinks;          // 176  [heads] scores of sinks; null: none
    int page_size;               // 184  keys of a page: K and V are [pages, kv_heads, page_size, head_dim]
    int pages_of_sequence;       // 188  entries of a sequence in the table
    int window_left;             // 192  keys before its own position that a query sees; -1: all
    int window_right;            // 196  keys after its own position; -1: all that the mask allows
    int from_last_key;           // 200  1: a sequence of n keys has the diagonal `diagonal - (seq_k - n)`
    float softcap;               // 204  score s becomes softcap * tanh(s / softcap); 0: it does not
    const int* query_starts;     // 208  [batch + 1]: Q and O are [heads, tokens, head_dim], the sequences follow one another,
    const int* key_starts;       // 216  [batch + 1]: the same for K and V; null for both: every sequence has its own batch entry
};                               // 224 bytes, aligned to 8

// Fourteen pointers, twelve strides, sixteen 4-byte scalars and nothing between them: the offsets above follow from the order.
static_assert(sizeof(Arguments) == 14 * 8 + 12 * 4 + 16 * 4 && alignof(Arguments) == 8, "mirrored on the host");

// Query i sees the keys [0, visible_keys): none (<= 0 is possible), some, or all of them.
__device__ inline int visible_keys(const Arguments& args, int query) {
    if (args.mask == Mask::none) return args.seq_k;
    return min(args.seq_k, query + args.diagonal + 1);
}

// ---- Features for serving. A family that does not read them refuses problems that have them. ----

// Keys [first, end) of a sequence; none if first >= end.
struct KeyRange {
    int first;
    int end;
};

// How many queries and keys a sequence has. Larger numbers than there is room for are not believed.
struct SequenceSize {
    int queries;
    int keys;

    SequenceSize() = default;
    __device__ SequenceSize(const Arguments& args, int batch) : queries(args.seq_q), keys(args.seq_k) {
        if (args.query_starts != nullptr)
            queries = max(min(args.query_starts[batch + 1] - args.query_starts[batch], args.seq_q), 0);
        if (args.key_starts != nullptr) keys = min(args.key_starts[batch + 1] - args.key_starts[batch], keys);
        if (args.key_lengths != nullptr) keys = min(args.key_lengths[batch], keys);
    }
};

// A query's own position among the keys of its sequence: the key `query + diagonal`.
__device__ inline int position_of(const Arguments& args, const SequenceSize& size, int query) {
    int position = query + args.diagonal;
    if (args.from_last_key != 0) position += (size.keys - args.seq_k) + (args.seq_q - size.queries);
    return position;
}

// The keys that a query at this position sees, of a sequence with so many. A window counts from the position.
__device__ inline KeyRange visible_from(const Arguments& args, int keys, int position) {
    const int first = args.window_left < 0 ? 0 : max(position - args.window_left, 0);
    if (args.mask == Mask::causal) return {first, min(position + 1, keys)};
    return {first, args.window_right < 0 ? keys : min(position + args.window_right + 1, keys)};
}
// The keys that a query of a sequence sees. Both bounds grow with the query.
__device__ inline KeyRange visible(const Arguments& args, const SequenceSize& size, int query) {
    return visible_from(args, size.keys, position_of(args, size, query));
}

// The keys that any query of a sequence sees. Memory beyond them may hold anything, NaN included.
__device__ inline KeyRange needed(const Arguments& args, const SequenceSize& size) {
    if (size.queries == 0) return {0, 0};
    return {visible(args, size, 0).first, visible(args, size, size.queries - 1).end};
}

// Where a sequence begins in tensors whose batch entries are sequences, or whose only entry has all of them.
struct TokenPlace {
    int entry;
    int first;
};
__device__ inline TokenPlace sequence_place(const int* starts, int batch) {
    return starts == nullptr ? TokenPlace{batch, 0} : TokenPlace{0, starts[batch]};
}

// The batch entry of K and V, or the page, that has a key of a sequence, and the position of the key there.
struct CachePlace {
    int entry;
    int position;
};
__device__ inline CachePlace cache_place(const Arguments& args, int batch, int key) {
    if (args.page_table == nullptr) {
        const TokenPlace sequence = sequence_place(args.key_starts, batch);
        return {sequence.entry, sequence.first + key};
    }
    const int of_sequence = key / args.page_size;
    const int page = args.page_table[static_cast<long long>(batch) * args.pages_of_sequence + of_sequence];
    return {page, key - of_sequence * args.page_size};
}

// The key/value head that query head `head` attends to: head / (heads / kv_heads), by multiplication. The factor is
// 2^32 / (heads / kv_heads) rounded up, which is exact as long as head * (heads / kv_heads) < 2^32; 0 if each key/value
// head has one query head.
__device__ inline int kv_head_of(const Arguments& args, int head) {
    return args.kv_head_factor == 0 ? head : __umulhi(head, args.kv_head_factor);
}

// First element of one head of one batch entry.
template <typename Element>
__device__ Element* head_start(Element* tensor, const Strides& strides, int batch, int head) {
    const auto far = [](int steps, unsigned stride) {
        return static_cast<unsigned long long>(static_cast<unsigned>(steps)) * stride;
    };
    return tensor + far(batch, strides.batch) + far(head, strides.head);
}

// The quantiser's scale of one head, 1 for tensors without scales.
__device__ inline float head_scale(const float* scales, int heads, int batch, int head) {
    return scales == nullptr ? 1.0f : scales[batch * heads + head];
}

// The place of a head's first scale, if heads have a scale for every `block` positions or one in all.
__device__ inline int first_scale(const Arguments& args, int head_of_batch, int positions, int block) {
    return args.block_scales != 0 ? head_of_batch * ((positions + block - 1) / block) : head_of_batch;
}

// A query row of a problem for serving: of Q, or of O.
template <typename Element>
__device__ Element* served_row(const Arguments& args, Element* tensor, const Strides& strides, int batch, int head,
                               int query) {
    const TokenPlace sequence = sequence_place(args.query_starts, batch);
    return head_start(tensor, strides, sequence.entry, head) +
           static_cast<unsigned long long>(static_cast<unsigned>(sequence.first + query)) * strides.sequence;
}
// Its index in the array of log-sum-exps, [batch, heads, seq_q] or [heads, tokens].
__device__ inline long long served_row_index(const Arguments& args, int batch, int head, int query) {
    if (args.query_starts == nullptr) return (static_cast<long long>(batch) * args.heads + head) * args.seq_q + query;
    return static_cast<long long>(head) * args.query_starts[args.batch] + args.query_starts[batch] + query;
}

// The index of the row (batch, head, query) among all rows, as in the array of log-sum-exps.
__device__ inline long long row_index(const Arguments& args, int batch, int head, int query) {
    return (static_cast<long long>(batch) * args.heads + head) * args.seq_q + query;
}

}  // namespace attention
