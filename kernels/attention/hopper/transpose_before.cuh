// FP8 with TRANSPOSE=before: a first launch transposes every tile of V once and writes it to the workspace as a
// TransposedTile, which the attention kernel copies as it is. Without it, every block transposes all tiles that it reads.
//
// A block transposes one box of one tile: a tensor copy to shared memory, four warps that transpose it in place, and one
// copy to the workspace for each matrix of the tile. Keys beyond the last are zeros. The last tile of a head has only
// such keys. Shared memory: one box, BLOCK_N * 64 or 128 bytes.
#pragma once

#include "hopper/transpose.cuh"
#include "hopper/work.cuh"

namespace hopper {

// Where a transposed tile is in the workspace.
__device__ __forceinline__ char* transposed_tile(const Arguments& args, int batch, int kv_head, int tile) {
    const long long head = static_cast<long long>(batch) * args.kv_heads + kv_head;
    return static_cast<char*>(args.workspace) + (head * tiles_of_keys(args) + tile) * TransposedTile::BYTES;
}

template <int KEYS>  // = BLOCK_N; a parameter, so that other candidates do not compile it
__device__ __forceinline__ void transpose_box(const Arguments& args, const TensorMap& v_map) {
    constexpr int COLUMNS = HEAD_DIM < KeyTile::BOX_COLUMNS ? HEAD_DIM : KeyTile::BOX_COLUMNS;  // of the box
    constexpr unsigned PART_BYTES = COLUMNS * TransposedTile::ROW;                              // of a matrix
    static_assert(HEAD_DIM % COLUMNS == 0, "all boxes have as many columns");
    constexpr int GROUPS = (COLUMNS / 16 + 3) / 4;  // of 16 columns, for each warp
    constexpr int STEPS = Transposer::STEPS;
    __shared__ __align__(1024) unsigned char memory[KEYS * ROW_BYTES];
    __shared__ __align__(8) unsigned long long full_memory;
    const unsigned tile = ptx::shared_address(memory), full = ptx::shared_address(&full_memory);
    const int box = blockIdx.y % KeyTile::BOXES, kv_head = blockIdx.y / KeyTile::BOXES, warp = threadIdx.x / 32;

    if (threadIdx.x == 0) {
        ptx::mbarrier_init(full, 1);
        tma::fence_barrier_init();
        tma::arrive_and_expect(full, KeyTile::BOX_BYTES);
        tma::load(tile, v_map, box * KeyTile::BOX_COLUMNS, blockIdx.x * KEYS, kv_head, blockIdx.z, full);
    }
    __syncthreads();  // every thread sees the barrier
    ptx::mbarrier_wait(full, 0);
    const Transposer transposer;
    unsigned r[GROUPS][STEPS][4];
#pragma unroll
    for (int i = 0; i < GROUPS; ++i) {
        const int group = warp + 4 * i;
#pragma unroll
        for (int step = 0; step < STEPS && group < COLUMNS / 16; ++step)
            ptx::load_matrix_x4_transposed(r[i][step],
                                           tile + (transposer.rows_lane ^ group * 16) + step * 32 * ROW_BYTES);
    }
    __syncthreads();  // all rows are in registers
#pragma unroll
    for (int i = 0; i < GROUPS; ++i) {
        const int group = warp + 4 * i;
#pragma unroll
        for (int step = 0; step < STEPS && group < COLUMNS / 16; ++step)
            Transposer::store(r[i][step], tile + step * 32 / TransposedTile::ROW * PART_BYTES +
                                              group * 16 * TransposedTile::ROW +
                                              (transposer.tile_lane ^ step * 32 % TransposedTile::ROW));
    }
    tma::fence_shared_writes();
    __syncthreads();
    if (threadIdx.x == 0) {
        char* const to = transposed_tile(args, blockIdx.z, kv_head, blockIdx.x) + box * PART_BYTES;
#pragma unroll
        for (int matrix = 0; matrix < KEYS / TransposedTile::ROW; ++matrix)
            tma::store_bytes(to + matrix * TransposedTile::MATRIX_BYTES, tile + matrix * PART_BYTES, PART_BYTES);
        tma::stores_read();
    }
}

template <bool WANTED>
__device__ __forceinline__ void transpose_values(const Arguments& args, const TensorMap& v_map) {
    if constexpr (WANTED) transpose_box<WANTED ? BLOCK_N : 0>(args, v_map);
}

}  // namespace hopper
