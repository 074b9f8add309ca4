// The 16x16x16 tensor-core step in two implementations with one interface.
//
//   Fragments<false>  nvcuda::wmma. Its loads take a base and a pitch, so its tiles are padded. Which lane holds
//                     which element is unspecified.
//   Fragments<true>   ldmatrix and two mma.m16n8k16. A WMMA load cannot follow an XOR swizzle, where neighbouring
//                     rows begin at different chunks; ldmatrix takes an address per row and can.
//
// Both compile to the same HMMA instructions on sm_80 and later, with fp16 inputs and fp32 sums.
// All 32 lanes of a warp call together.
#pragma once

#include <cuda_fp16.h>
#include <mma.h>

#include "common/ptx.cuh"
#include "common/tiles.cuh"

namespace wmma = nvcuda::wmma;

template <bool SWIZZLED>
struct Fragments;

template <>
struct Fragments<false> {
    using Left = wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major>;
    using RightTransposed = wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major>;
    using Right = wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major>;
    using Sum = wmma::fragment<wmma::accumulator, 16, 16, 16, float>;

    __device__ static void clear(Sum& sum) { wmma::fill_fragment(sum, 0.0f); }

    // tile[row .. row+16, 8*chunk .. 8*chunk+16) as the left factor, the right factor, or the right factor
    // transposed.
    template <typename Factor, int PITCH>
    __device__ static void load(Factor& factor, Tile<PITCH, false> tile, int row, int chunk) {
        wmma::load_matrix_sync(factor, tile.chunk(row, chunk), PITCH);
    }

    template <typename RightFactor>
    __device__ static void multiply_add(Sum& sum, const Left& left, const RightFactor& right) {
        wmma::mma_sync(sum, left, right, sum);
    }

    // sum -> shared[16 x 16], rows PITCH floats apart
    template <int PITCH>
    __device__ static void store(float* shared, const Sum& sum) {
        wmma::store_matrix_sync(shared, sum, PITCH, wmma::mem_row_major);
    }

    // One factor per row, shared[16]. Read column-major with columns 0 floats apart they become a fragment
    // that holds the factor of row r wherever a sum holds an element of row r.
    using RowFactors = Sum;
    __device__ static void load(RowFactors& factors, const float* shared) {
        wmma::load_matrix_sync(factors, shared, 0, wmma::mem_col_major);
    }

    __device__ static void scale_rows(Sum& sum, const RowFactors& factors) {
#pragma unroll
        for (int i = 0; i < sum.num_elements; ++i) sum.x[i] *= factors.x[i];
    }
};

template <>
struct Fragments<true> {
    struct Left {
        unsigned r[4];  // 8x8 blocks: top left, bottom left, top right, bottom right
    };
    struct RightTransposed {
        unsigned r[4];  // columns 0-7: depth 0-7, 8-15; columns 8-15: depth 0-7, 8-15
    };
    struct Right {
        unsigned r[4];  // as above
    };
    struct Sum {
        float columns[2][4];  // columns 0-7 and 8-15: two of row l / 4, two of row l / 4 + 8
    };

    __device__ static int lane() { return threadIdx.x % 32; }

    __device__ static void clear(Sum& sum) {
#pragma unroll
        for (int i = 0; i < 8; ++i) sum.columns[i / 4][i % 4] = 0.0f;
    }

    template <int PITCH, bool S>
    __device__ static void load(Left& left, Tile<PITCH, S> tile, int row, int chunk) {
        ptx::load_matrix_x4(left.r, tile.chunk(row + lane() % 16, chunk + lane() / 16));
    }

    template <int PITCH, bool S>
    __device__ static void load(RightTransposed& right, Tile<PITCH, S> tile, int row, int chunk) {
        ptx::load_matrix_x4(right.r, tile.chunk(row + lane() / 16 * 8 + lane() % 8, chunk + lane() / 8 % 2));
    }

    template <int PITCH, bool S>
    __device__ static void load(Right& right, Tile<PITCH, S> tile, int row, int chunk) {
        ptx::load_matrix_x4_transposed(right.r, tile.chunk(row + lane() % 16, chunk + lane() / 16));
    }

    // The same without a tile, element by element.
    __device__ static void load(Left& left, NoTile rows, int row, int chunk) {
#pragma unroll
        for (int i = 0; i < 4; ++i)
            left.r[i] = rows.pair(row + lane() / 4 + i % 2 * 8, 8 * chunk + lane() % 4 * 2 + i / 2 * 8);
    }

    __device__ static void load(RightTransposed& right, NoTile rows, int row, int chunk) {
#pragma unroll
        for (int i = 0; i < 4; ++i)
            right.r[i] = rows.pair(row + lane() / 4 + i / 2 * 8, 8 * chunk + lane() % 4 * 2 + i % 2 * 8);
    }

    __device__ static void load(Right& right, NoTile rows, int row, int chunk) {
#pragma unroll
        for (int i = 0; i < 4; ++i)
            right.r[i] = rows.column_pair(row + lane() % 4 * 2 + i % 2 * 8, 8 * chunk + lane() / 4 + i / 2 * 8);
    }

    template <typename RightFactor>
    __device__ static void multiply_add(Sum& sum, const Left& left, const RightFactor& right) {
        ptx::mma_16x8x16(sum.columns[0], left.r, right.r[0], right.r[1]);
        ptx::mma_16x8x16(sum.columns[1], left.r, right.r[2], right.r[3]);
    }

    template <int PITCH>
    __device__ static void store(float* shared, const Sum& sum) {
        static_assert(PITCH % 2 == 0, "pairs of floats are stored at once");
        float* corner = shared + lane() / 4 * PITCH + lane() % 4 * 2;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float(&c)[4] = sum.columns[half];
            *reinterpret_cast<float2*>(corner + 8 * half) = make_float2(c[0], c[1]);
            *reinterpret_cast<float2*>(corner + 8 * half + 8 * PITCH) = make_float2(c[2], c[3]);
        }
    }

    struct RowFactors {
        float top, bottom;  // of rows l / 4 and l / 4 + 8
    };
    __device__ static void load(RowFactors& factors, const float* shared) {
        factors = {shared[lane() / 4], shared[lane() / 4 + 8]};
    }

    __device__ static void scale_rows(Sum& sum, const RowFactors& factors) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            sum.columns[half][0] *= factors.top;
            sum.columns[half][1] *= factors.top;
            sum.columns[half][2] *= factors.bottom;
            sum.columns[half][3] *= factors.bottom;
        }
    }
};
