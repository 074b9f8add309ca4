// Fused attention for Hopper: O = softmax(scale * Q K^T + mask) V.
//
// Copies are tensor copies (TMA), products are those of warpgroups (wgmma). A work tile has 64 query rows, or 64 per
// computing warpgroup. Steps run from the last keys to the first, so that those with hidden keys come first.
//
// There are two paths. `stream.cuh`, the usual one, keeps the tensor cores busy: a producer warpgroup copies, each other
// warpgroup has its own rows. `split.cuh` is for launches that are too short for that: the warpgroups of a block have
// the same 64 rows and split the keys. In FP8 a first launch can transpose V (`transpose_before.cuh`).

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
