// Rows of any element type in shared memory as chunks of 16 bytes, placed so that the loads of the tensor cores have
// no bank conflicts.
//
// ldmatrix reads eight rows at one chunk index at once, and eight chunks fill the 32 banks exactly once. Rows of C
// chunks begin at bank groups 0, C, 2C, ... modulo 8, which repeat after 8 / gcd(C, 8) rows. Two layouts:
//
//   swizzled   chunk c of row r lies at c XOR (r / (8 / gcd)), low bits only: repeating rows use other banks.
//   padded     one more chunk per row if C is even: an odd C repeats only after 8 rows.
//
//   head_dim       64   80   96  128  256
//   fp16  C         8   10   12   16   32      XOR with   r mod 8   r/4 mod 2   r/2 mod 4   r mod 8   r mod 8
//   e4m3  C         4    5    6    8   16                 r/2 mod 4   -         r/4 mod 2   r mod 8   r mod 8
#pragma once

#include "common/ptx.cuh"

// A tile of ROWS rows of CHUNKS chunks, PITCH bytes apart.
template <int ROWS_, int CHUNKS_, int PITCH_, bool SWIZZLED>
struct ChunkTile {
    static constexpr int ROWS = ROWS_;
    static constexpr int CHUNKS = CHUNKS_;
    static constexpr bool IS_SWIZZLED = SWIZZLED;
    static constexpr int PITCH = PITCH_;
    static constexpr int BYTES = ROWS * PITCH;
    static constexpr int COMMON = CHUNKS % 8 == 0 ? 8 : CHUNKS % 4 == 0 ? 4 : CHUNKS % 2 == 0 ? 2 : 1;  // gcd(C, 8)
    static_assert(PITCH == (SWIZZLED ? CHUNKS : CHUNKS + (CHUNKS % 2 == 0)) * 16, "as described above");

    unsigned first;  // in the shared window

    // The value that chunk indices of this row are XORed with; it is the same for rows eight apart.
    __device__ static int twist(int row) { return SWIZZLED ? row % 8 / (8 / COMMON) : 0; }

    __device__ unsigned chunk(int row, int index) const { return first + row * PITCH + (index ^ twist(row)) * 16; }
};

// The address that a lane gives to ldmatrix: row `row` and, of two neighbouring chunks, the `odd` one. Tiles and rows
// start at multiples of the range of the XOR. A step to another chunk is therefore one XOR on the address, and all
// other offsets are constants.
template <typename Tile>
struct LaneRow {
    static constexpr int PERIOD = Tile::IS_SWIZZLED ? Tile::COMMON : 1;  // the XOR stays within this many chunks
    static_assert(!Tile::IS_SWIZZLED || Tile::PITCH % (PERIOD * 16) == 0, "rows begin at a multiple of the period");

    unsigned place;   // with the XOR
    unsigned start;   // without the XOR

    __device__ LaneRow(Tile tile, int row, int odd)
        : place(tile.first + row * Tile::PITCH + (Tile::twist(row) ^ odd) * 16), start(tile.first + row * Tile::PITCH) {}

    // Chunk `chunk` (even, or any if the lane has no odd one), `rows` rows further on (a multiple of eight).
    __device__ unsigned at(int rows, int chunk) const {
        return (place ^ chunk % PERIOD * 16) + rows * Tile::PITCH + chunk / PERIOD * PERIOD * 16;
    }

    // The same chunk for both neighbours: the last one of an odd number, where the XOR has no effect.
    __device__ unsigned at_single(int rows, int chunk) const {
        static_assert(Tile::CHUNKS % 2 == 0 || Tile::COMMON == 1, "an odd number of chunks has no twist");
        return start + rows * Tile::PITCH + chunk * 16;
    }
};

// A thread's part of copying one head of a tensor to tiles by cp.async, tile after tile: one column of chunks, in every
// ROWS_PER_PASS-th row. If the chunks of a row do not divide the number of threads, the last few threads have no work.
template <typename Tile, int THREADS>
struct TileCopier {
    static constexpr int ROWS_PER_PASS = THREADS / Tile::CHUNKS;
    static constexpr int PASSES = (Tile::ROWS + ROWS_PER_PASS - 1) / ROWS_PER_PASS;
    static constexpr bool ALIKE = ROWS_PER_PASS % 8 == 0;  // the XOR is the same in every pass
    static_assert(ROWS_PER_PASS >= 1, "at least a row at a time");

    const char* source;  // the thread's first chunk of the next tile
    int stride;          // bytes from row to row
    unsigned place;      // of that chunk in its tile

    __device__ static int own_row(unsigned thread) { return thread / Tile::CHUNKS; }
    __device__ static int column(unsigned thread) { return thread % Tile::CHUNKS; }

    // Starts with the tile at `first_row` of the head.
    __device__ TileCopier(const char* head, int stride_, int first_row, unsigned thread)
        : source(head + static_cast<long long>(first_row + own_row(thread)) * stride_ + column(thread) * 16),
          stride(stride_), place(Tile{0}.chunk(own_row(thread), column(thread))) {}

    // The caller waits. The first `count` rows of the tile exist; the others become zeros, because a masked score has
    // weight 0 and 0 * NaN is NaN. WHOLE: all rows exist.
    template <bool WHOLE>
    __device__ void copy(Tile tile, int count, unsigned thread) const {
        if (THREADS % Tile::CHUNKS != 0 && own_row(thread) >= ROWS_PER_PASS) return;
#pragma unroll
        for (int pass = 0; pass < PASSES; ++pass) {
            const int below = pass * ROWS_PER_PASS, row = own_row(thread) + below;
            if (Tile::ROWS % ROWS_PER_PASS != 0 && row >= Tile::ROWS) break;
            const unsigned to = ALIKE ? tile.first + place + below * Tile::PITCH : tile.chunk(row, column(thread));
            const char* from = source + static_cast<long long>(below) * stride;
            if constexpr (WHOLE) {
                ptx::copy16_async(to, from);
            } else {
                ptx::copy16_async(to, from, row < count);  // rows that do not exist are not read
            }
        }
    }

    // The next tile is `rows` rows further on.
    __device__ void move(int rows) { source += static_cast<long long>(rows) * stride; }
};
