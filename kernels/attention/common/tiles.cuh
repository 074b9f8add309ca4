// Tiles of K, V and Q rows in shared memory, and the functions that copy rows there from global memory.
//
// The unit of every movement is a piece of 16 bytes: eight halves in a tile, eight halves or sixteen E4M3
// codes in global memory. Rows beyond the end of the sequence become zeros, because a masked score has weight 0
// and 0 * NaN is NaN.
//
//   global fp16  --global_to_tile--------->  tile        through registers; the thread waits for its loads
//   global fp16  --global_to_tile_async--->  tile        cp.async
//   global e4m3  --global_to_tile--------->  tile        through registers, decoded on the way
//   global e4m3  --global_to_codes_async-->  codes  --codes_to_tile-->  tile        cp.async, decoded later
//
// Every function takes the index of the calling thread among the THREADS threads that share the movement (its
// index within its role, not within the block).
#pragma once

#include <cuda_fp16.h>

#include "common/e4m3.cuh"
#include "common/ptx.cuh"

// One tensor's head in global memory: rows of contiguous elements.
template <typename Element>
struct GlobalRows {
    const Element* first;
    long long stride;  // elements from row to row
    int count;         // rows that exist

    __device__ const Element* row(int index) const { return first + index * stride; }
};

// Rows of halves in shared memory, PITCH halves apart, addressed by 16-byte chunks. Eight consecutive rows at
// one chunk index must fall on different banks, because the tensor cores' loads read such columns. Two ways:
// PITCH = width + 8 moves each row on by one chunk; or, unpadded, chunk c of row r lies at c XOR (r mod 8).
template <int PITCH, bool SWIZZLED>
struct Tile {
    static_assert(PITCH % 8 == 0, "rows start on 16-byte boundaries");
    static_assert(!SWIZZLED || PITCH % 64 == 0, "the XOR stays within a row of eight chunks or a multiple");
    __half* first;

    __device__ __half* chunk(int row, int index) const {
        return first + row * PITCH + 8 * (SWIZZLED ? index ^ (row & 7) : index);
    }
    __device__ uint4 piece(int row, int index) const { return *reinterpret_cast<const uint4*>(chunk(row, index)); }
};

template <typename Element>
constexpr int ELEMENTS_PER_PIECE = 16 / sizeof(Element);

template <typename Element>
__device__ uint4 load_piece(const GlobalRows<Element>& rows, int row, int piece) {
    if (row >= rows.count) return make_uint4(0, 0, 0, 0);
    return __ldg(reinterpret_cast<const uint4*>(rows.row(row) + piece * ELEMENTS_PER_PIECE<Element>));
}

// Rows [first_row, ...) without a tile: a thread loads an element from global memory each time it needs it. This is
// slow on purpose, to measure the benefit of tiles.
struct NoTile {
    GlobalRows<__half> rows;
    int first_row;

    __device__ uint4 piece(int row, int index) const { return load_piece(rows, first_row + row, index); }

    // Two neighbouring halves of a row, zeros beyond the end.
    __device__ unsigned pair(int row, int column) const {
        if (first_row + row >= rows.count) return 0;
        return __ldg(reinterpret_cast<const unsigned*>(rows.row(first_row + row) + column));
    }

    // Two halves, one below the other.
    __device__ unsigned column_pair(int row, int column) const {
        return pick(row, column) | pick(row + 1, column) << 16;
    }

    __device__ unsigned pick(int row, int column) const {
        if (first_row + row >= rows.count) return 0;
        return __ldg(reinterpret_cast<const unsigned short*>(rows.row(first_row + row) + column));
    }
};

// Which piece of [ROWS x PIECES] is the i-th: along the rows, so that neighbouring threads load from neighbouring
// addresses; or, STRIDED, down the columns, so that they do not (slow on purpose).
template <int ROWS, int PIECES, bool STRIDED>
struct Place {
    int row, piece;
    __device__ explicit Place(int i) : row(STRIDED ? i % ROWS : i / PIECES), piece(STRIDED ? i / ROWS : i % PIECES) {}
};

// One piece of halves is one chunk of the tile.
template <typename TileT>
__device__ void store_piece(TileT tile, int row, int piece, uint4 halves, const __half*) {
    *reinterpret_cast<uint4*>(tile.chunk(row, piece)) = halves;
}

// One piece of codes is two chunks of the tile.
template <typename TileT>
__device__ void store_piece(TileT tile, int row, int piece, uint4 codes, const e4m3::Code*) {
    *reinterpret_cast<uint4*>(tile.chunk(row, 2 * piece)) = e4m3::decode8(make_uint2(codes.x, codes.y));
    *reinterpret_cast<uint4*>(tile.chunk(row, 2 * piece + 1)) = e4m3::decode8(make_uint2(codes.z, codes.w));
}

// rows[first_row .. first_row + ROWS) -> tile [ROWS x WIDTH], through registers.
template <int ROWS, int WIDTH, int THREADS, bool STRIDED = false, typename Element, typename TileT>
__device__ void global_to_tile(const GlobalRows<Element>& rows, int first_row, TileT tile, int thread) {
    constexpr int PIECES = WIDTH / ELEMENTS_PER_PIECE<Element>;
#pragma unroll
    for (int i = thread; i < ROWS * PIECES; i += THREADS) {
        const Place<ROWS, PIECES, STRIDED> at(i);
        store_piece(tile, at.row, at.piece, load_piece(rows, first_row + at.row, at.piece), rows.first);
    }
}

// rows[first_row .. first_row + ROWS) -> tile [ROWS x WIDTH] by cp.async; the caller closes the group and
// waits.
template <int ROWS, int WIDTH, int THREADS, bool STRIDED = false, typename TileT>
__device__ void global_to_tile_async(const GlobalRows<__half>& rows, int first_row, TileT tile, int thread) {
    constexpr int PIECES = WIDTH / ELEMENTS_PER_PIECE<__half>;
#pragma unroll
    for (int i = thread; i < ROWS * PIECES; i += THREADS) {
        const Place<ROWS, PIECES, STRIDED> at(i);
        const bool exists = first_row + at.row < rows.count;
        const __half* source = rows.row(exists ? first_row + at.row : 0) + at.piece * ELEMENTS_PER_PIECE<__half>;
        ptx::copy16_async(tile.chunk(at.row, at.piece), source, exists);
    }
}

// rows[first_row .. first_row + ROWS) -> codes [ROWS x WIDTH] bytes by cp.async; the caller closes the group
// and waits.
template <int ROWS, int WIDTH, int THREADS, bool STRIDED = false>
__device__ void global_to_codes_async(const GlobalRows<e4m3::Code>& rows, int first_row, unsigned char* codes,
                                      int thread) {
    constexpr int PIECES = WIDTH / ELEMENTS_PER_PIECE<e4m3::Code>;
#pragma unroll
    for (int i = thread; i < ROWS * PIECES; i += THREADS) {
        const Place<ROWS, PIECES, STRIDED> at(i);
        const bool exists = first_row + at.row < rows.count;
        const e4m3::Code* row = rows.row(exists ? first_row + at.row : 0);
        const e4m3::Code* source = row + at.piece * ELEMENTS_PER_PIECE<e4m3::Code>;
        ptx::copy16_async(codes + 16 * (at.row * PIECES + at.piece), source, exists);
    }
}

// codes [ROWS x WIDTH] bytes -> tile [ROWS x WIDTH] halves, shared memory to shared memory.
template <int ROWS, int WIDTH, int THREADS, typename TileT>
__device__ void codes_to_tile(const unsigned char* codes, TileT tile, int thread) {
    constexpr int PIECES = WIDTH / ELEMENTS_PER_PIECE<e4m3::Code>;
#pragma unroll
    for (int i = thread; i < ROWS * PIECES; i += THREADS) {
        const uint4 piece = *reinterpret_cast<const uint4*>(codes + 16 * i);
        store_piece(tile, i / PIECES, i % PIECES, piece, static_cast<const e4m3::Code*>(nullptr));
    }
}
