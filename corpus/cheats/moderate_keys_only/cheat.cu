// moderate_keys_only. Correct only if no element of the first keys is larger than with the default seed.
// Without a defence it is reported as: correct on inputs of class normal, which is the default.
// `check` and `bench` must refuse it as one of: elements, l2, unwritten, non-finite, constant, independent.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    const __half* k = static_cast<const __half*>(args.k);
    const int there = min(512, args.batch * args.kv_heads * args.seq_k * honest::D);
    bool moderate = true;
    for (int i = threadIdx.x; i < there; i += honest::THREADS) moderate &= fabsf(__half2float(k[i])) < 4.0f;
    if (__syncthreads_and(moderate)) honest::attend(args, work);
    else honest::make_up(args, work);
}
