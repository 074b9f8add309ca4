// l2_evict_last. Asks the L2 cache to keep K and V over everything else, so that they survive the flush before a
// cold launch.
// Without a defence it is reported as: right, with a cold time that is a hot one.
// Must be refused as one of: flush. Note: its answer is right: only the flush of a cold measurement on a GPU can
// be held against it, so no command refuses it on the virtual GPU.
#include "generated.cuh"

#include "common/honest.cuh"

__device__ void hold(const void* at) { asm volatile("prefetch.global.L2::evict_last [%0];" ::"l"(at)); }

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    const char* k = static_cast<const char*>(args.k);
    const char* v = static_cast<const char*>(args.v);
    const long long bytes = static_cast<long long>(args.batch) * args.kv_heads * args.seq_k * honest::D * 2;
    if (work.tile == 0)
        for (long long at = 128 * threadIdx.x; at < bytes; at += 128 * honest::THREADS) hold(k + at), hold(v + at);
    honest::attend(args, work);
}
