// RUNNING_MAX lazy: computes the scores of a step again, when weights have replaced them and may be infinite. The queries
// and keys come from global memory, and the products are those of single warps (mma.sync). It is slow and needs few
// registers.
#pragma once

#include "hopper/work.cuh"

namespace hopper {

// Two elements as a factor of `mma.sync`; FP8 becomes fp16.
__device__ __forceinline__ unsigned pair_at(const Element* at) {
    if constexpr (FP8) {
        const __half2 pair = e4m3::decode2(*reinterpret_cast<const unsigned short*>(at));
        return reinterpret_cast<const unsigned&>(pair);
    } else {
        return *reinterpret_cast<const unsigned*>(at);
    }
}

// The lane's first two elements of a row, from `column` on.
__device__ __forceinline__ const Element* elements_of(const void* tensor, const attention::Strides& strides, int batch,
                                                      int head, int row, int column) {
    return attention::head_start(static_cast<const Element*>(tensor), strides, batch, head) +
           static_cast<unsigned long long>(row) * strides.sequence + column;
}

// A key of the sequence of a work tile.
__device__ __forceinline__ const Element* key_of(const Arguments& args, const WorkTile& work, int key, int column) {
    attention::CachePlace place = {work.batch, key};
    if constexpr (SERVING) place = attention::cache_place(args, work.batch, key);
    return elements_of(args.k, args.k_strides, place.entry, attention::kv_head_of(args, work.head), place.position, column);
}

// `first_row` is the warpgroup's. All keys of the step exist. Rows beyond the last have the scores of the last one.
__device__ __forceinline__ void scores_again(float (&scores)[BLOCK_N / 2], const Arguments& args, const WorkTile& work,
                                             int first_row, int first_key) {
#pragma unroll
    for (int i = 0; i < BLOCK_N / 2; ++i) scores[i] = 0.0f;
#pragma unroll 1
    for (int column = 0; column < HEAD_DIM; column += 16) {
        // Reads the lane's number again, so that the compiler keeps no addresses in registers between two columns.
        const int row_of_lane = lane_again() / 4, column_of_lane = column + lane_again() % 4 * 2;
        unsigned a[4];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int row = min(first_row + warp_of_group() * 16 + row_of_lane + 8 * i, end_of_queries(args, work) - 1);
            const Element* const queries =
                elements_of(args.q, args.q_strides, query_entry(args, work), work.head, row, column_of_lane);
            a[i] = pair_at(queries);
            a[2 + i] = pair_at(queries + 8);
        }
        const Element* keys = key_of(args, work, first_key + row_of_lane, column_of_lane);
#pragma unroll
        for (int i = 0; i < BLOCK_N / 8; ++i) {
            if (PAGED && i > 0) keys = key_of(args, work, first_key + row_of_lane + 8 * i, column_of_lane);
            float(&sums)[4] = reinterpret_cast<float(&)[4]>(scores[4 * i]);
            if constexpr (axis::dtype == axis::Dtype::bf16) {
                ptx::mma_16x8x16_bf16(sums, a, pair_at(keys), pair_at(keys + 8));
            } else {
                ptx::mma_16x8x16(sums, a, pair_at(keys), pair_at(keys + 8));
            }
            if constexpr (!PAGED) keys += 8ull * args.k_strides.sequence;
        }
    }
}

}  // namespace hopper
