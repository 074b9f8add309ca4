// A tile of A B^T by mma.sync: BLOCK_M rows of A times BLOCK_N rows of B, over a range of their columns.
//
// Everything is counted in bytes, so that one source serves fp16, bf16 and FP8: the tensor cores multiply 32 bytes of a row
// at a time in all of them. A step takes BLOCK_K bytes of every row. Steps go through a ring of STAGES stages in shared
// memory, filled ahead by cp.async; one barrier per step. The warps form a grid of WARPS_M by WARPS_N, and every warp
// computes an equal part of the tile.
//
// Rows in shared memory are chunks of 16 bytes. ldmatrix reads one chunk of eight rows at once; these must lie in
// different banks:
//
//   swizzled   chunk c of row r lies at c XOR (r mod 8) in rows of 128 bytes, at c XOR (r / 2 mod 4) in rows of 64
//   padded     every row is followed by 16 unused bytes
//   plain      neither: all eight rows (of 128 bytes) are in the same banks
//
// Rows and columns past the ends of A and B are zeros, and are not read.
#pragma once

#include "common/ptx.cuh"

enum class Placement { swizzled, padded, plain };

template <typename Element, int BLOCK_M, int BLOCK_N, int BLOCK_K, int WARPS_M, int WARPS_N, int STAGES,
          Placement PLACEMENT, bool EXTRA_BARRIERS>
struct Product {
    static constexpr int THREADS = WARPS_M * WARPS_N * 32;
    static constexpr int CHUNKS = BLOCK_K / 16;
    static constexpr int PITCH = BLOCK_K + (PLACEMENT == Placement::padded ? 16 : 0);
    static constexpr int A_BYTES = BLOCK_M * PITCH;
    static constexpr int STAGE_BYTES = A_BYTES + BLOCK_N * PITCH;
    static constexpr int ROWS = BLOCK_M / WARPS_M, COLUMNS = BLOCK_N / WARPS_N;  // of a warp
    static constexpr int M16 = ROWS / 16, N8 = COLUMNS / 8;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    static constexpr int UNROLL = sizeof(Element) == 1 ? 1 : BLOCK_K / 32;  // Hopper unpacks FP8 to fp16, in registers
#else
    static constexpr int UNROLL = BLOCK_K / 32;
#endif
    static_assert(BLOCK_K == 64 || BLOCK_K == 128, "four or eight chunks");
    static_assert(ROWS % 16 == 0 && COLUMNS % 16 == 0, "the warp's part is made of 16x16 blocks");
    static_assert(STAGES >= 2, "a stage is filled while another is used");

    float sums[M16][N8][4];

    __device__ static unsigned place(int row, int chunk) {
        const int twist = PLACEMENT != Placement::swizzled ? 0 : CHUNKS == 8 ? row % 8 : row / 2 % 4;
        return row * PITCH + (chunk ^ twist) * 16;
    }

    // Starts copies of BLOCK_K bytes from byte `column` on, of rows `first` to `first` + COUNT. `row_bytes` is the length of
    // a row, `end` the end of the columns to multiply.
    template <int COUNT>
    __device__ static void copy(unsigned shared, const char* matrix, int first, int rows, long long row_bytes, int column,
                                int end) {
#pragma unroll
        for (int i = 0; i < (COUNT * CHUNKS + THREADS - 1) / THREADS; ++i) {
            const int index = threadIdx.x + i * THREADS, row = index / CHUNKS, chunk = index % CHUNKS;
            if (COUNT * CHUNKS % THREADS != 0 && row >= COUNT) break;
            const int at = column + chunk * 16;
            const bool exists = first + row < rows && at < end;
            const char* from = exists ? matrix + (first + row) * row_bytes + at : matrix;
            ptx::copy16_async(shared + place(row, chunk), from, exists);
        }
    }

    // Multiplies bytes [begin, end) of the rows from first_m and first_n on; both are multiples of 16. All threads of the
    // block call once. `shared` holds STAGES * STAGE_BYTES bytes at a multiple of 128.
    __device__ void run(unsigned shared, const char* a, const char* b, int m, int n, long long row_bytes, int first_m,
                        int first_n, int begin, int end) {
#pragma unroll
        for (int i = 0; i < M16 * N8 * 4; ++i) sums[i / 4 / N8][i / 4 % N8][i % 4] = 0.0f;

        const int steps = (end - begin + BLOCK_K - 1) / BLOCK_K;
        const auto fill = [&](int step) {
            if (step < steps) {
                const unsigned stage = shared + step % STAGES * STAGE_BYTES;
                copy<BLOCK_M>(stage, a, first_m, m, row_bytes, begin + step * BLOCK_K, end);
                copy<BLOCK_N>(stage + A_BYTES, b, first_n, n, row_bytes, begin + step * BLOCK_K, end);
            }
            ptx::copy_group_end();  // also if it is empty: waits count groups
        };
        for (int step = 0; step < STAGES - 1; ++step) fill(step);

        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        const int row_a = warp / WARPS_N * ROWS + lane % 16, half_a = lane / 16;
        const int row_b = warp % WARPS_N * COLUMNS + lane / 16 * 8 + lane % 8, half_b = lane / 8 % 2;
        for (int step = 0; step < steps; ++step) {
            ptx::copy_groups_wait<STAGES - 2>();
            __syncthreads();  // the step's stage is complete, and the stage before it has been used
            fill(step + STAGES - 1);
            const unsigned stage_a = shared + step % STAGES * STAGE_BYTES, stage_b = stage_a + A_BYTES;
#pragma unroll UNROLL
            for (int part = 0; part < BLOCK_K / 32; ++part) {
                unsigned left[M16][4], right[N8 / 2][4];
#pragma unroll
                for (int i = 0; i < M16; ++i)
                    ptx::load_matrix_x4(left[i], stage_a + place(row_a + 16 * i, 2 * part + half_a));
#pragma unroll
                for (int j = 0; j < N8 / 2; ++j)
                    ptx::load_matrix_x4(right[j], stage_b + place(row_b + 16 * j, 2 * part + half_b));
#pragma unroll
                for (int i = 0; i < M16; ++i)
#pragma unroll
                    for (int j = 0; j < N8; ++j)
                        ptx::mma(sums[i][j], left[i], right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1], Element());
                if constexpr (EXTRA_BARRIERS) __syncthreads();
            }
        }
    }

    // Calls use(row, column, two sums) for every pair of neighbouring columns of the thread, counted within the tile.
    template <typename Use>
    __device__ void each_pair(Use use) const {
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        const int row = warp / WARPS_N * ROWS + lane / 4, column = warp % WARPS_N * COLUMNS + lane % 4 * 2;
#pragma unroll
        for (int i = 0; i < M16; ++i)
#pragma unroll
            for (int half = 0; half < 2; ++half)
#pragma unroll
                for (int j = 0; j < N8; ++j)
                    use(row + 16 * i + 8 * half, column + 8 * j, sums[i][j][2 * half], sums[i][j][2 * half + 1]);
    }
};

// The tile of a block: GROUP rows of tiles are taken column by column, so that the blocks that run together share rows of
// A and B in the L2 cache.
template <int BLOCK_M, int BLOCK_N, int GROUP>
__device__ int2 tile_of(int block, int m, int n) {
    const int rows = (m + BLOCK_M - 1) / BLOCK_M, columns = (n + BLOCK_N - 1) / BLOCK_N;
    const int group = block / (GROUP * columns), within = block % (GROUP * columns);
    const int height = min(GROUP, rows - group * GROUP);
    return make_int2(group * GROUP + within % height, within / height);
}
