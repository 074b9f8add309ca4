// Helpers for kernels that keep state between launches: the last block of a launch, a fingerprint of the inputs, and a
// cache of the output.
#pragma once

#include "common/honest.cuh"

namespace between_launches {

using attention::Arguments;
using honest::Work;

// True in all threads of the block that arrives last. `arrived` is 0 before and after the launch.
__device__ inline bool is_last_block(unsigned* arrived) {
    __shared__ bool last;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        const unsigned blocks = gridDim.x * gridDim.y * gridDim.z;
        last = atomicInc(arrived, blocks - 1) == blocks - 1;
        __threadfence();
    }
    __syncthreads();
    return last;
}

// A number that depends on the inputs. It is never 0.
__device__ inline unsigned fingerprint(const Arguments& args) {
    const long long query_words = static_cast<long long>(args.batch) * args.heads * args.seq_q * honest::D / 2;
    const long long key_words = static_cast<long long>(args.batch) * args.kv_heads * args.seq_k * honest::D / 2;
    unsigned mixed = 2166136261u;
    const auto mix = [&](const void* tensor, long long words) {
        for (int i = 0; i < 4; ++i)
            mixed = (mixed ^ static_cast<const unsigned*>(tensor)[words * i / 4]) * 16777619u;
    };
    mix(args.q, query_words), mix(args.k, key_words), mix(args.v, key_words);
    return mixed | 1;
}

// The capacity of a cache of the output, in pairs of elements.
constexpr int PAIRS = 1 << 14;

__device__ inline bool fits(const Arguments& args) {
    return static_cast<long long>(args.batch) * args.heads * args.seq_q * (honest::D / 2) <= PAIRS;
}

__device__ inline long long slot(const Arguments& args, Work work, int row, int pair) {
    const long long index = attention::row_index(args, work.batch, work.head, work.tile * honest::ROWS + row);
    return index * (honest::D / 2) + pair;
}

// Copy the output into the cache, and back.
__device__ inline void keep(const Arguments& args, Work work, __half2* cache) {
    __syncthreads();
    honest::each_pair(args, work, [&](__half2* o, int row, int pair) { cache[slot(args, work, row, pair)] = *o; });
}

__device__ inline void give(const Arguments& args, Work work, const __half2* cache) {
    honest::each_pair(args, work, [&](__half2* o, int row, int pair) { *o = cache[slot(args, work, row, pair)]; });
}

}  // namespace between_launches
