// Work tiles: which query rows a block computes, and which keys they see.
#pragma once

#include "mma/candidate.cuh"

namespace flash {

// BLOCK_M query rows of one head and the steps of BLOCK_N keys that any of them sees.
struct WorkTile {
    int batch;
    int head;
    int kv_head;
    int first_query;
    int steps;
    int masked;     // steps at the end in which some row does not see every key
    int first_key;  // of the first step
    attention::SequenceSize size;
    int end;        // no row sees this key or a later one

    __device__ WorkTile(const Arguments& args, int query_block, int head_, int batch_)
        : batch(batch_), head(head_), kv_head(attention::kv_head_of(args, head)),
          first_query(query_block * BLOCK_M) {
        if constexpr (SERVING) {
            // A window hides keys at both ends, so all steps are masked.
            size = attention::SequenceSize(args, batch);
            first_key = attention::visible(args, size, first_query).first / BLOCK_N * BLOCK_N;
            end = attention::visible(args, size, min(first_query + BLOCK_M, size.queries) - 1).end;
            steps = masked = first_query < size.queries ? max((end - first_key + BLOCK_N - 1) / BLOCK_N, 0) : 0;
            return;
        }
        const int last_query = min(first_query + BLOCK_M, args.seq_q) - 1;
        first_key = 0;
        end = args.seq_k;
        const int seen_by_all = max(attention::visible_keys(args, first_query), 0);
        const int seen_by_any = max(attention::visible_keys(args, last_query), 0);
        steps = (seen_by_any + BLOCK_N - 1) / BLOCK_N;
        masked = steps - seen_by_all / BLOCK_N;
    }
};

// Queries of the sequence of a work tile.
__device__ int queries_of(const Arguments& args, const WorkTile& work) {
    return SERVING ? work.size.queries : args.seq_q;
}

__device__ int query_blocks(const Arguments& args) { return (args.seq_q + BLOCK_M - 1) / BLOCK_M; }

// Calls `visit` with the block's work tiles, its own one or every PERSISTENT-th, and whether it is the first. Neighbours
// share a head, so its K and V stay in L2; the last query block, the longest under a causal mask, comes first.
template <typename Visit>
__device__ void for_each_work_tile(const Arguments& args, Visit visit) {
    if constexpr (PERSISTENT) {
        const int blocks = query_blocks(args);
        for (int index = blockIdx.x; index < blocks * args.heads * args.batch; index += knob::PERSISTENT) {
            if (index >= knob::PERSISTENT) __syncthreads();  // the previous work tile no longer uses any buffer
            const int head = index / blocks;
            const WorkTile work(args, blocks - 1 - index % blocks, head % args.heads, head / args.heads);
            visit(work, index < knob::PERSISTENT);
        }
    } else {
        visit(WorkTile(args, gridDim.x - 1 - blockIdx.x, blockIdx.y, blockIdx.z), true);
    }
}

// The same work tile again, for storing the output. It is computed again if possible, which costs less than registers
// that hold it during the loop.
__device__ WorkTile again(const Arguments& args, const WorkTile& work) {
    if constexpr (PERSISTENT) {
        return work;
    } else {
        const int3 index = ptx::block_index_again();
        return WorkTile(args, gridDim.x - 1 - index.x, index.y, index.z);
    }
}

// The index in the work tile of a group's t-th step, and the group's number of steps of the last `count`.
__device__ int step_of(const WorkTile& work, int group, int t) { return work.steps - 1 - (t * GROUPS + group); }
__device__ int key_of(const WorkTile& work, int group, int t) {
    return (SERVING ? work.first_key : 0) + step_of(work, group, t) * BLOCK_N;
}
__device__ int share_of(int count, int group) { return (count - group + GROUPS - 1) / GROUPS; }

}  // namespace flash
