// Fused attention for Hopper: O = softmax(scale * Q K^T + mask) V, by online softmax (FlashAttention).
//
// A block computes work tiles of query rows of one head, in steps of BLOCK_N keys. A producer copies tiles to shared
// memory by tensor copies (TMA). Consumers, a warpgroup each, multiply 64 rows by wgmma. The scores, the weights and the
// output stay in registers.
//
//                          K^T, V: BLOCK_N keys per step, from the last to the first
//                          +-------+-------+-------+
//   Q: 64 rows  consumer 0 |       |       |       |   -> O: 64 rows x head_dim
//      64 rows  consumer 1 |       |       |       |   -> O
//                          +-------+-------+-------+
//
// There are two paths:
//
// - `stream.cuh`, the usual one: every consumer has its own 64 rows, and blocks go from work tile to work tile.
// - `split.cuh`, for launches of a few microseconds: the two consumers have the same 64 rows and split the keys.
//
// `tiles.cuh` has the tiles in shared memory, `rows*.cuh` the softmax and the products, `work.cuh` the order of the work.
// In FP8, V must be transposed: by warps of the producer warpgroup (`transpose.cuh`), or by a first launch
// (`transpose_before.cuh`).
//
// Shared memory, bytes (E: bytes per element; columns are padded to whole boxes of 128 bytes, or 64 in FP8 at head_dim
// 64; a block has at most 227 KB):
//
//   queries         Q_STAGES * BLOCK_M * head_dim * E
//   keys, values    2 * STAGES * BLOCK_N * head_dim * E          with SPLIT_KV for each consumer
//   value rows      V_ROW_STAGES * BLOCK_N * head_dim            FP8 with TRANSPOSE inside
//   promoted sums   BLOCK_M * head_dim * (4; above 64: 2)        FP8 with PROMOTION_INTERVAL
//   store tile      BLOCK_M * 128                                16-bit
//
//   fp16, head_dim 128 (d128): 64 + 128 + 16 KB. FP8, head_dim 256 (fp8-d256): 64 + 96 + 64 KB.
//
// NOTES.md has the design, the reasons for it, and what was tried.

#include "hopper/split.cuh"
#include "hopper/stream.cuh"

namespace hopper {

template <bool SPLIT_KEYS>
__device__ __forceinline__ void attention_path(const Arguments& args, const TensorMap& q_map, const TensorMap& k_map,
                                               const TensorMap& v_map) {
    if constexpr (SPLIT_KEYS) {
        split<SPLIT_KEYS ? CONSUMERS : 0>(args, q_map, k_map, v_map);
    } else {
        stream(args, q_map, k_map, v_map);
    }
}

}  // namespace hopper

extern "C" __global__ void __launch_bounds__(128)
transpose_values(const __grid_constant__ attention::Arguments args, const __grid_constant__ tma::TensorMap,
                 const __grid_constant__ tma::TensorMap, const __grid_constant__ tma::TensorMap v_map) {
    hopper::transpose_values<hopper::TRANSPOSED_BEFORE>(args, v_map);
}

extern "C" __global__ void __launch_bounds__(hopper::THREADS, 1)
attention_hopper(const __grid_constant__ attention::Arguments args, const __grid_constant__ tma::TensorMap q_map,
                 const __grid_constant__ tma::TensorMap k_map, const __grid_constant__ tma::TensorMap v_map) {
    hopper::attention_path<hopper::SPLIT>(args, q_map, k_map, v_map);
}
