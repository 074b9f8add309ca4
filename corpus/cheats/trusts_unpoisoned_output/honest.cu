// The honest twin of trusts_unpoisoned_output. Reads its output back after it has written it.
#include "generated.cuh"

#include "common/honest.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    honest::attend(args, work);
    __syncthreads();
    honest::each_pair(args, work, [](__half2* o, int, int) { *o = __hmul2(*o, __float2half2_rn(1.0f)); });
}
