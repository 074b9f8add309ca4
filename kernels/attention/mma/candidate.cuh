// The candidate as constants and types: element type, tiles, threads, and where things are in shared memory.
#pragma once

#include "generated.cuh"

#include "common/arguments.cuh"
#include "common/chunks.cuh"
#include "common/elements.cuh"
#include "common/ptx.cuh"
#include "common/softmax.cuh"

extern __shared__ __align__(128) unsigned char shared_memory[];

namespace flash {

using attention::Arguments;

// The element types: how two fp32 numbers become one register, and which instruction multiplies.
template <axis::Dtype>
struct Numbers;
template <>
struct Numbers<axis::Dtype::fp16> {
    using Element = __half;
    __device__ static void multiply_add(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
        ptx::mma_16x8x16(d, a, b0, b1);
    }
};
template <>
struct Numbers<axis::Dtype::bf16> {
    using Element = __nv_bfloat16;
    __device__ static void multiply_add(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
        ptx::mma_16x8x16_bf16(d, a, b0, b1);
    }
};
template <>
struct Numbers<axis::Dtype::e4m3> {
    using Element = e4m3::Code;
    __device__ static void multiply_add(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
        ptx::mma_16x8x32_e4m3(d, a, b0, b1);
    }
};
using Number = Numbers<axis::dtype>;
using Element = Number::Element;
using Output = OutputOf<Element, axis::fp8_output == axis::Fp8Output::bf16>::Type;

constexpr bool FP8 = axis::dtype == axis::Dtype::e4m3;
constexpr int HEAD_DIM = axis::head_dim;
constexpr int BLOCK_M = knob::BLOCK_M;
constexpr int BLOCK_N = knob::BLOCK_N;
constexpr int STAGES = knob::STAGES;
constexpr int GROUPS = knob::SPLIT_KV;  // of warps, each with its own share of the keys
constexpr bool SPLIT = GROUPS > 1;
constexpr int GROUP_WARPS = knob::NUM_WARPS / GROUPS;
constexpr int GROUP_THREADS = GROUP_WARPS * 32;
constexpr int THREADS = GROUPS * GROUP_THREADS;
constexpr int STRIPS = BLOCK_M / (16 * GROUP_WARPS);  // of 16 rows, per warp
constexpr bool QUERIES_IN_REGISTERS = knob::Q_IN == decltype(knob::Q_IN)::registers;
constexpr bool LOOK_AHEAD = knob::LOOK_AHEAD;
constexpr bool PERSISTENT = knob::PERSISTENT > 0;
constexpr bool SERVING = axis::serving;  // lengths, pages, windows, sinks, softcap; without it there is no code for them

constexpr int ROW_BYTES = HEAD_DIM * sizeof(Element);
constexpr int ROW_CHUNKS = ROW_BYTES / 16;
constexpr int DEPTH_STEPS = (ROW_BYTES + 31) / 32;            // of Q K^T
constexpr bool LAST_DEPTH_IS_HALF = ROW_BYTES % 32 != 0;      // FP8 at head_dim 80
constexpr int SCORE_BLOCKS = BLOCK_N / 8;                     // 16x8, side by side
constexpr int OUTPUT_BLOCKS = HEAD_DIM / 8;                   // 16x8, side by side

static_assert(knob::NUM_WARPS % GROUPS == 0 && STRIPS >= 1 && STRIPS * 16 * GROUP_WARPS == BLOCK_M, "whole strips");
static_assert(BLOCK_N % 16 == 0, "whole tensor-core steps");
static_assert(ROW_BYTES % 16 == 0 && HEAD_DIM % 16 == 0, "whole chunks, and blocks in pairs");
static_assert(!SPLIT || GROUPS + GROUP_WARPS <= 15, "named barriers: one per group, one per warp of a group");
#if defined(__CUDA_ARCH__)
static_assert(!FP8 || __CUDA_ARCH__ >= 890, "the tensor cores multiply E4M3 from sm_89 on");
#endif

using QTile = ChunkTile<BLOCK_M, ROW_CHUNKS, smem::k_tile::dim3, knob::SWIZZLE>;
using KvTile = ChunkTile<BLOCK_N, ROW_CHUNKS, smem::k_tile::dim3, knob::SWIZZLE>;
using KvCopier = TileCopier<KvTile, GROUP_THREADS>;

static_assert(smem::k_tile::dim0 == GROUPS && smem::k_tile::dim1 == STAGES && smem::k_tile::dim2 == BLOCK_N,
              "as the manifest lays it out");
static_assert(smem::v_tile::bytes == smem::k_tile::bytes && smem::v_tile::dim3 == smem::k_tile::dim3, "V's like K's");

// The origin of a row before its first key: finite, because -inf - -inf is NaN, and below every exponent that matters.
constexpr float NOTHING_SEEN = -3.4e38f;

// ---- where things are ----

__device__ int lane() { return threadIdx.x % 32; }
__device__ int warp() { return threadIdx.x / 32; }
__device__ int own_group() { return SPLIT ? ptx::same_in_warp(warp() / GROUP_WARPS) : 0; }
__device__ int group_thread() { return threadIdx.x % GROUP_THREADS; }
__device__ int first_row() { return warp() % GROUP_WARPS * (STRIPS * 16); }  // of the warp, in the work tile
__device__ int quad_lane() { return lane() % 4; }
// The lane's rows in the work tile: half 0 is top, half 1 bottom.
__device__ int own_row(int strip, int half) { return first_row() + strip * 16 + half * 8 + lane() / 4; }

__device__ unsigned in_shared(unsigned offset) { return ptx::shared_address(shared_memory) + offset; }
__device__ QTile q_tile() { return {in_shared(smem::q_tile::offset)}; }
// The results that lane l of another group stores for lane l of the first group, which has the same rows and columns:
// for each strip the blocks of the output, then origins and sums.
__device__ float4* left_by(int of_group, int strip) {  // [OUTPUT_BLOCKS + 1], 32 apart
    const int strip_of_block = warp() % GROUP_WARPS * STRIPS + strip;
    return reinterpret_cast<float4*>(shared_memory + smem::left_rows::offset) +
           ((of_group - 1) * (BLOCK_M / 16) + strip_of_block) * ((OUTPUT_BLOCKS + 1) * 32) + lane();
}
// Barriers that complete a phase when all threads have copied their part of a tile: a group's K or V, or the queries
// (and with them the first K of every group).
constexpr int TILE_BARRIERS = GROUPS * 2 * STAGES;
__device__ unsigned barrier(int index) { return in_shared(smem::landed::offset + index * 8); }
__device__ unsigned query_barrier() { return barrier(TILE_BARRIERS); }

// The other threads see the barriers after they have synchronised with this thread.
__device__ void init_barriers() {
    if (threadIdx.x != 0) return;
#pragma unroll
    for (int i = 0; i < TILE_BARRIERS; ++i) ptx::mbarrier_init(barrier(i), GROUP_THREADS);
    ptx::mbarrier_init(query_barrier(), THREADS);
}

// Synchronises all warps of a group, and no others.
__device__ void group_sync(int group) {
    if constexpr (!SPLIT) {
        __syncthreads();
    } else if constexpr (GROUP_WARPS == 1) {
        __syncwarp();
    } else {
        ptx::named_barrier_sync<GROUP_THREADS>(1 + group);
    }
}

}  // namespace flash
