// E4M3 codes with a scale per head in one launch that reads memory once: a head stays in the shared memory of a cluster.
//
// A cluster of CLUSTER blocks takes head after head, and each of its blocks takes an equal part of the head. A part goes
// through a ring of STAGES stages of STAGE_KB kilobytes:
//
//   producer    one warp: fills stage after stage by bulk copies, as soon as a stage is free. It runs ahead into the next
//               head as far as the ring allows, so that memory is busy while the consumers wait for each other.
//   consumers   WARPS warps, for each head:
//     absmax      of every stage of the part, as it lands
//     exchange    every warp sends its maximum to all blocks of the cluster; each block waits for all of them
//     codes       of every stage, from shared memory; then the stage is free
//
// A stage holds a piece of the part. Both passes give a thread the same vectors of eight elements, so one wait per stage
// suffices. The part must fit into the ring, because its stages become free only in the second pass.

#include "generated.cuh"

#include "common/e4m3.cuh"
#include "common/elements.cuh"
#include "common/pipeline.cuh"

namespace ring {

using Element = axis::Element<>;
using Vector = Eight<Element>;

using knob::CLUSTER;
using knob::STAGES;
using knob::WARPS;
constexpr int THREADS = WARPS * 32;                 // consumers
constexpr int STAGE = knob::STAGE_KB * 1024 / 16;   // vectors of a stage
constexpr int SENDERS = CLUSTER * WARPS;            // of maxima
static_assert(smem::stages::dim0 == STAGES && smem::stages::dim1 == STAGE * 16, "see above");
static_assert(smem::maxima::dim0 == 2 && smem::maxima::dim1 == SENDERS, "for this head and the next");

// A place in the ring: a stage, and the parity of its use.
struct Place {
    int stage = 0;
    unsigned parity = 0;

    __device__ void next() {
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }
};

// This block's part of every head.
struct Part {
    long long first;  // vector of a head
    int vectors;
    int pieces;

    __device__ Part(int head_vectors, unsigned rank) {
        const int share = (head_vectors + CLUSTER - 1) / CLUSTER;
        first = static_cast<long long>(share) * rank;
        vectors = max(0, min(share, head_vectors - static_cast<int>(first)));
        pieces = (vectors + STAGE - 1) / STAGE;
    }
    __device__ int piece_vectors(int piece) const { return min(STAGE, vectors - piece * STAGE); }
};

}  // namespace ring

extern "C" __global__ void __launch_bounds__(ring::THREADS + 32, 1)
quantise_ring(const ring::Element* x, e4m3::Code* codes, float* scales, int batch, int heads, int seq, int head_dim) {
    using namespace ring;
    extern __shared__ __align__(128) unsigned char shared[];
    Vector* stages = reinterpret_cast<Vector*>(shared + smem::stages::offset);                          // [STAGES][STAGE]
    float* maxima = reinterpret_cast<float*>(shared + smem::maxima::offset);                            // [2][SENDERS]
    unsigned long long* full = reinterpret_cast<unsigned long long*>(shared + smem::full::offset);      // [STAGES]
    unsigned long long* empty = reinterpret_cast<unsigned long long*>(shared + smem::empty::offset);    // [STAGES]
    unsigned long long* received = reinterpret_cast<unsigned long long*>(shared + smem::received::offset);  // [2]

    const unsigned rank = CLUSTER > 1 ? pipeline::cluster_rank() : 0;
    const int head_vectors = seq * head_dim / 8, all_heads = batch * heads;
    const int cluster = blockIdx.x / CLUSTER, clusters = gridDim.x / CLUSTER;
    const Part part(head_vectors, rank);

    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) {
            pipeline::init(full + i, 1);
            pipeline::init(empty + i, WARPS);
        }
        for (int i = 0; i < 2; ++i) pipeline::init(received + i, SENDERS);
        pipeline::publish_barriers();
    }
    pipeline::cluster_barrier();

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (warp == WARPS) {
        if (lane != 0) return;
        Place place;
        for (int head = cluster; head < all_heads; head += clusters) {
            const Vector* from = reinterpret_cast<const Vector*>(x) + static_cast<long long>(head) * head_vectors + part.first;
            for (int piece = 0; piece < part.pieces; ++piece, place.next()) {
                pipeline::wait(empty + place.stage, place.parity ^ 1);
                pipeline::load(stages + place.stage * STAGE, from + piece * STAGE, part.piece_vectors(piece) * 16,
                               full + place.stage);
            }
        }
        return;
    }

    Place place;
    int turn = 0;              // which half of `maxima` is used: a fast block may be one head ahead
    unsigned turn_parity = 0;
    for (int head = cluster; head < all_heads; head += clusters) {
        unsigned pair = 0;
        Place ahead = place;
        for (int piece = 0; piece < part.pieces; ++piece, ahead.next()) {
            pipeline::wait(full + ahead.stage, ahead.parity);
            const int vectors = part.piece_vectors(piece);
            for (int i = threadIdx.x; i < vectors; i += THREADS) pair = stages[ahead.stage * STAGE + i].largest_with(pair);
        }
        const float mine = warp_max(largest<Element>(pair));
        __syncwarp();  // all lanes have read the maxima of the last head: the others may overwrite those before them
        if (lane < CLUSTER)
            pipeline::send(maxima + turn * SENDERS + rank * WARPS + warp, received + turn, lane, mine);
        pipeline::wait_for_cluster(received + turn, turn_parity);
        float absmax = 0.0f;
        for (int i = lane; i < SENDERS; i += 32) absmax = fmaxf(absmax, maxima[turn * SENDERS + i]);
        const e4m3::Scale scale(warp_max(absmax));
        if (rank == 0 && threadIdx.x == 0) scales[head] = scale.scale;

        uint2* to = reinterpret_cast<uint2*>(codes) + static_cast<long long>(head) * head_vectors + part.first;
        for (int piece = 0; piece < part.pieces; ++piece, place.next()) {
            const int vectors = part.piece_vectors(piece);
            const Vector* from = stages + place.stage * STAGE;
            for (int i = threadIdx.x; i < vectors; i += THREADS) to[piece * STAGE + i] = from[i].codes(scale);
            __syncwarp();
            if (lane == 0) pipeline::arrive(empty + place.stage);
        }
        turn_parity ^= turn;
        turn ^= 1;
    }
}
