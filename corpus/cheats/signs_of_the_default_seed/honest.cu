// The honest twin of signs_of_the_default_seed. The signs decide which block computes which tile, not what is
// computed.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    const unsigned short* q = static_cast<const unsigned short*>(args.q);
    unsigned signs = 0;
    for (int i = 0; i < 16; ++i) signs |= (q[i] >> 15) << i;
    // The block computes another tile; the set of tiles is the same.
    const int tiles = gridDim.x;
    honest::attend(args, {(work.tile + static_cast<int>(signs)) % tiles, work.head, work.batch});
}
