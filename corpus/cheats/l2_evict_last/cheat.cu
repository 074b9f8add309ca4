// l2_evict_last. Asks the L2 cache to keep K and V with priority, so that they survive the flush before a cold
// launch.
// Without a defence it is reported as: correct, with a hot time reported as a cold time.
// No command refuses it: its results are correct. It must not be faster than its twin.
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
