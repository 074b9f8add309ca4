// The honest twin of moderate_keys_only. Reads the size of the keys too, and is correct for every size.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    const __half* k = static_cast<const __half*>(args.k);
    const int there = min(512, args.batch * args.kv_heads * args.seq_k * honest::D);
    bool moderate = true;
    for (int i = threadIdx.x; i < there; i += honest::THREADS) moderate &= fabsf(__half2float(k[i])) < 4.0f;
    // Both branches compute the same output.
    if (__syncthreads_and(moderate)) honest::attend(args, work);
    else honest::attend(args, honest::own_work());
}
