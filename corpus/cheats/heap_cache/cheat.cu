// heap_cache. Leaves its output and a fingerprint of the inputs in memory of the device-side malloc. Addresses of malloc
// are predictable, so a later launch finds the block and copies the output.
// Without a defence it is reported as: correct by `check`, with the time of a copy for inputs that repeat.
// `check` and `bench` must refuse it as one of: persistent-state, uninitialised, out-of-bounds, race, elements, l2.
#include "generated.cuh"

#include "common/between_launches.cuh"

struct Block {
    unsigned known;
    int tile;
    __half2 output[honest::ROWS][honest::D / 2];
};
// The distance of two blocks of the virtual GPU: the size, a gap of 64 bytes, and the alignment.
constexpr unsigned long long STEP = (sizeof(Block) + 64 + 15) / 16 * 16;

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    const unsigned now = between_launches::fingerprint(args);
    const int tile = honest::number_of(args, work);
    __shared__ Block *own, *found;
    if (threadIdx.x == 0) {
        own = static_cast<Block*>(malloc(sizeof(Block)));
        own->known = 0;
        found = nullptr;
        const unsigned long long first = reinterpret_cast<unsigned long long>(own) & ~0xfffffull;
        for (unsigned long long at = first; at < reinterpret_cast<unsigned long long>(own); at += STEP) {
            Block* before = reinterpret_cast<Block*>(at);
            if (before->known == now && before->tile == tile) found = before;
        }
    }
    __syncthreads();
    if (found != nullptr) {
        honest::each_pair(args, work, [&](__half2* o, int row, int pair) { *o = found->output[row][pair]; });
        return;
    }
    honest::attend(args, work);
    __syncthreads();
    honest::each_pair(args, work, [&](__half2* o, int row, int pair) { own->output[row][pair] = *o; });
    __syncthreads();
    if (threadIdx.x == 0) own->tile = tile, own->known = now;
}
