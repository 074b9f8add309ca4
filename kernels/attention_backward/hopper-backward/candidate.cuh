// The candidate as constants, the tiles in shared memory with their barriers, and the arrays in the workspace.
//
//   ring    filled by     read by            tile
//   Q       producer      both consumers     BLOCK_M queries, and their LSE
//   dO      producer      both consumers     BLOCK_M queries, and their delta
//
// A tile is "full" when all its bytes have arrived, and "free" again when every warp of the consumers has released it. K and V
// stay for the whole block. A consumer's part of dQ is full when its warps have stored it, and free when the copy engine
// has read it.
#pragma once

#include "generated.cuh"

#include "common/backward.cuh"
#include "common/copied_tile.cuh"
#include "common/delta.cuh"
#include "common/elements.cuh"
#include "common/ptx.cuh"
#include "common/tma.cuh"
#include "common/wgmma.cuh"

extern __shared__ __align__(1024) unsigned char shared_memory[];

namespace backward {

using attention::Arguments;
using attention::BackwardArguments;
using tma::RingPosition;
using tma::TensorMap;

using Element = axis::Element<e4m3::Code>;

constexpr int HEAD_DIM = axis::head_dim;
constexpr bool WIDE = HEAD_DIM > 128;
constexpr int BLOCK_M = knob::BLOCK_M;      // queries of a step
constexpr int BLOCK_N = WIDE ? 64 : 128;    // keys of a block
constexpr int CONSUMERS = 2;                // warpgroups
constexpr int THREADS = CONSUMERS * 128 + 128;
constexpr int Q_STAGES = knob::Q_STAGES;
constexpr int DO_STAGES = knob::DO_STAGES;
constexpr int DS_STAGES = knob::DS_STAGES;
constexpr bool ORDERED = knob::ORDERED;
constexpr bool DQ_DIRECT = knob::DQ_DIRECT;
constexpr bool LATE_DQ = knob::LATE_DQ;
constexpr int PING_PONG = knob::PING_PONG;
// Per thread. With ORDERED the producer needs more; only consumers of narrow heads can spare them.
constexpr bool MORE_FOR_PRODUCER = ORDERED && HEAD_DIM <= 64;
constexpr int PRODUCER_REGISTERS = MORE_FOR_PRODUCER ? 40 : 24;
constexpr int CONSUMER_REGISTERS = MORE_FOR_PRODUCER ? 232 : 240;

// Tiles have whole boxes of 64 columns; columns that do not exist are zeros.
using KeyTile = tma::CopiedTile<Element, HEAD_DIM, BLOCK_N>;
using QueryTile = tma::CopiedTile<Element, HEAD_DIM, BLOCK_M>;
constexpr int PADDED_DIM = QueryTile::BOXES * 64;

// A consumer has 64 keys and computes whole rows of dK and dV. Heads above 128 are too wide for its registers: then both
// consumers have the same 64 keys, and each computes the scores of half of the queries and half of the columns of all results.
constexpr int SCORE_QUERIES = WIDE ? BLOCK_M / 2 : BLOCK_M;
constexpr int RESULT_COLUMNS = WIDE ? HEAD_DIM / 2 : HEAD_DIM;

// P (wide heads only) and dS: a row for each key, in boxes of 64 queries, swizzled like the boxes of a copy.
using ScoreTile = tma::CopiedTile<Element, BLOCK_M, BLOCK_N>;

// dQ of a step is BLOCK_M x PADDED_DIM. A consumer computes half of it: all columns of its own 64 queries, or half of the
// columns of all queries.
constexpr bool OWN_QUERIES = BLOCK_M == 128;
constexpr int DQ_COLUMNS = OWN_QUERIES ? PADDED_DIM : PADDED_DIM / 2;
constexpr int DQ_FLOATS = 64 * DQ_COLUMNS;  // of a consumer
static_assert(DQ_COLUMNS <= 64 || DQ_COLUMNS % 64 == 0, "within a box, or whole boxes");

__device__ inline int lane() { return threadIdx.x % 32; }
__device__ inline int warp_of_group() { return threadIdx.x / 32 % 4; }
__device__ inline unsigned in_shared(unsigned offset) { return ptx::shared_address(shared_memory) + offset; }
__device__ inline float* floats_in_shared(unsigned offset) { return reinterpret_cast<float*>(shared_memory + offset); }

// ---- tiles and barriers ----

__device__ inline unsigned barrier(int index) { return in_shared(smem::barriers::offset) + index * 8; }
__device__ inline unsigned kv_full() { return barrier(0); }
__device__ inline unsigned dq_full(int consumer) { return barrier(1 + 2 * Q_STAGES + 2 * DO_STAGES + consumer); }
__device__ inline unsigned dq_free(int consumer) { return dq_full(CONSUMERS + consumer); }
__device__ inline unsigned ds_full(int stage) { return dq_full(2 * CONSUMERS + stage); }
__device__ inline unsigned ds_free(int stage) { return ds_full(DS_STAGES + stage); }
__device__ inline unsigned dq_tile(int consumer) { return in_shared(smem::dq_tile::offset) + consumer * DQ_FLOATS * 4; }

// A ring of tiles of BLOCK_M rows, each with a float for every row.
template <typename Tiles, typename Statistics, int STAGES_, int FIRST_BARRIER>
struct Ring {
    static constexpr int STAGES = STAGES_;
    static constexpr unsigned BYTES = QueryTile::BYTES + BLOCK_M * sizeof(float);  // of a stage

    __device__ static unsigned tile(int stage) { return in_shared(Tiles::offset) + stage * QueryTile::BYTES; }
    __device__ static float* statistics(int stage) { return floats_in_shared(Statistics::offset) + stage * BLOCK_M; }
    __device__ static unsigned full(int stage) { return barrier(FIRST_BARRIER + stage); }
    __device__ static unsigned free(int stage) { return barrier(FIRST_BARRIER + STAGES + stage); }

    __device__ static void init() {
        for (int stage = 0; stage < STAGES; ++stage) {
            ptx::mbarrier_init(full(stage), 1);
            ptx::mbarrier_init(free(stage), CONSUMERS * 4);  // one arrival per warp
        }
    }
    // Copies rows of one head, and their statistics.
    __device__ static void copy(const RingPosition& at, const TensorMap& map, const float* statistics_of_tile, int row,
                                int head, int batch) {
        ptx::mbarrier_wait(free(at.stage), at.parity ^ 1);
        tma::arrive_and_expect(full(at.stage), BYTES);
        QueryTile::load(tile(at.stage), map, row, head, batch, full(at.stage));
        tma::load_bytes(ptx::shared_address(statistics(at.stage)), statistics_of_tile, BLOCK_M * sizeof(float),
                        full(at.stage));
    }
    __device__ __forceinline__ static void wait_full(const RingPosition& at) {
        ptx::mbarrier_wait(full(at.stage), at.parity);
    }
    // Releases a tile for this warp, whose lanes have read its statistics.
    __device__ __forceinline__ static void release(RingPosition& at) {
        __syncwarp();
        if (lane() == 0) ptx::mbarrier_arrive(free(at.stage));
        at.advance<STAGES>();
    }
};
using QueryRing = Ring<smem::q_tile, smem::lse, Q_STAGES, 1>;
using GradientRing = Ring<smem::do_tile, smem::deltas, DO_STAGES, 1 + 2 * Q_STAGES>;

static_assert(smem::k_tile::bytes == KeyTile::BYTES && smem::v_tile::bytes == KeyTile::BYTES &&
                  smem::q_tile::bytes == Q_STAGES * QueryTile::BYTES &&
                  smem::do_tile::bytes == DO_STAGES * QueryTile::BYTES &&
                  smem::ds_tile::bytes == DS_STAGES * ScoreTile::BYTES &&
                  smem::p_tile::bytes == (WIDE ? DS_STAGES * ScoreTile::BYTES : 0) &&
                  smem::dq_tile::bytes == (DQ_DIRECT ? 0 : CONSUMERS * DQ_FLOATS * 4),
              "as the manifest lays it out");

// ---- the workspace ----

// Rows of a head in the workspace: whole tiles.
__device__ inline int padded_rows(const Arguments& args) { return (args.seq_q + BLOCK_M - 1) / BLOCK_M * BLOCK_M; }

struct Workspace {
    float* lse;     // in base 2
    float* deltas;
    float* dq;      // [tiles of BLOCK_M][consumer][DQ_FLOATS]
    int* counters;  // ORDERED: [tiles of BLOCK_M][consumer] blocks that have added their part

    // Of one head.
    __device__ Workspace(const Arguments& args, int batch, int head) {
        const int padded = padded_rows(args);
        const long long all = static_cast<long long>(padded) * args.batch * args.heads;
        const long long first = static_cast<long long>(padded) * (batch * args.heads + head);
        float* const start = static_cast<float*>(args.workspace);
        lse = start + 2 * first;
        deltas = lse + padded;
        dq = start + 2 * all + first * PADDED_DIM;
        counters = reinterpret_cast<int*>(start + (2 + PADDED_DIM) * all + first);
    }
    __device__ float* dq_tile(int tile, int consumer) const {
        return dq + (static_cast<long long>(tile) * CONSUMERS + consumer) * DQ_FLOATS;
    }
};

// ORDERED: the number of blocks that have started. It is in the last counter of the first head, which no tile uses.
__device__ inline int* started_blocks(const Arguments& args) {
    return Workspace(args, 0, 0).counters + padded_rows(args) - 1;
}

// ---- the work of a block ----

__device__ inline int key_tiles_of(const Arguments& args) { return (args.seq_k + BLOCK_N - 1) / BLOCK_N; }
// Tiles of keys, of all key/value heads, have numbers: those of the blocks. ORDERED: a block that waits for others must know
// that they run. So blocks take numbers when they start, and wait only for blocks with smaller ones.
__device__ inline int* number_of_block() { return reinterpret_cast<int*>(shared_memory + smem::number_of_block::offset); }

// The tile's BLOCK_N keys of one key/value head. Its steps are the tiles of queries that see them, for each query head.
struct Work {
    int key_tile, first_key, kv_head, batch;
    int first_head, heads;
    int first_tile, masked_end, tiles;  // tiles from masked_end on need no mask

    // Each role computes it after it has its own number of registers.
    __device__ explicit Work(const Arguments& args) : heads(args.heads / args.kv_heads) {
        const int number = ORDERED ? *number_of_block() : ptx::block_index_again().x;
        const int key_tiles = key_tiles_of(args), all_heads = args.kv_heads * args.batch;
        int head;
        if (args.mask == attention::Mask::causal && (knob::HEAD_GROUP > 1 || ORDERED)) {
            // HEAD_GROUP heads at a time, the first keys of all of them first: they have the most queries. ORDERED: the last
            // keys first, because blocks wait for them.
            const int section = number / (key_tiles * knob::HEAD_GROUP) * knob::HEAD_GROUP;
            const int heads_of_section = min(knob::HEAD_GROUP, all_heads - section);
            const int rest = number - section * key_tiles;
            key_tile = rest / heads_of_section;
            head = section + rest % heads_of_section;
            if (ORDERED) key_tile = key_tiles - 1 - key_tile;
        } else {
            key_tile = number % key_tiles;
            head = number / key_tiles;
        }
        batch = head / args.kv_heads;
        kv_head = head % args.kv_heads;
        first_key = key_tile * BLOCK_N;
        first_head = kv_head * heads;
        tiles = (args.seq_q + BLOCK_M - 1) / BLOCK_M;
        const int first_query = attention::first_query_of(args, first_key);
        first_tile = first_query < args.seq_q ? first_query / BLOCK_M : tiles;
        int whole = first_tile;
        if (args.mask == attention::Mask::causal) {
            const int query = max(first_key + BLOCK_N - 1 - args.diagonal, 0);  // it sees all keys of the block
            whole = (query + BLOCK_M - 1) / BLOCK_M;
        }
        if (first_key + BLOCK_N > args.seq_k) whole = tiles;
        masked_end = min(max(whole, first_tile), tiles);
    }
};

// ORDERED: how many blocks add to a tile of dQ before this one: those with earlier keys. Under a causal mask those with
// later keys, because they start at this tile or just before: (last key that the tile sees) / BLOCK_N - key_tile.
struct Turn {
    int key_tile;
    int last_key;  // that the present tile sees, if keys and queries had no end
    int limit;

    __device__ Turn(const Arguments& args, const Work& work) : key_tile(work.key_tile) {
        begin(args, work.first_tile);
        const bool causal = args.mask == attention::Mask::causal;
        limit = causal ? min(args.seq_k, args.seq_q + args.diagonal) - 1 : 2 * key_tile * BLOCK_N;
    }
    __device__ void begin(const Arguments& args, int tile) {
        last_key = args.mask == attention::Mask::causal ? (tile + 1) * BLOCK_M - 1 + args.diagonal : 0x7fffffff;
    }
    __device__ int number() const { return min(last_key, limit) / BLOCK_N - key_tile; }
    // Of the next tile.
    __device__ void advance() { last_key = min(last_key, 0x7fffffff - BLOCK_M) + BLOCK_M; }
};

// ---- results in the type ----

// A 4x4 matrix of words in four neighbouring lanes: lane i's word j becomes lane j's word i.
__device__ __forceinline__ void transpose_words(unsigned (&words)[4]) {
#pragma unroll
    for (int distance = 1; distance <= 2; distance *= 2) {
        const bool upper = (threadIdx.x & distance) != 0;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (i & distance) continue;
            const unsigned received = __shfl_xor_sync(0xffffffffu, upper ? words[i] : words[i + distance], distance);
            (upper ? words[i] : words[i + distance]) = received;
        }
    }
}

// Stores four neighbouring blocks of 8 columns of a row, 16 bytes per lane: `words` are the lane's pairs of each block, as
// accumulators have them. `to` is where the first block belongs; null if the row does not exist. Four lanes have a row.
__device__ __forceinline__ void store_blocks(Element* to, int columns, unsigned (&words)[4]) {
    transpose_words(words);
    const int column = lane() % 4 * 8;
    if (to != nullptr && column < columns) ptx::store16(to + column, words);
}

// With JITTER the warp sleeps for a time that depends on block, warp and step. This must not change the result.
__device__ inline void jitter(int what) {
    if constexpr (knob::JITTER) {
        unsigned hash = (blockIdx.x * 64 + threadIdx.x / 32) * 2654435761u + what * 2246822519u;
        hash ^= hash >> 15;
        hash *= 3266489917u;
        __nanosleep(hash >> 16 & 4095);
    }
}

}  // namespace backward
