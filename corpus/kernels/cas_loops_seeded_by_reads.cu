// The programming guide's atomicAdd for double: a plain read gives the compare-and-swap loop its first guess. The bfloat16
// atomics of cuda_bf16.h do the same. A wrong guess costs one more iteration: a note at most.
// Expected: total[0] = sum of x, halves[0] = number of elements, halves[1] = 0.
// warpsmith: --arch sm_80 --kernel accumulate --grid 2 --block 64 --shared 0
// warpsmith: --arg x=f64[128]=uniform(4) --arg total=inout,f64[1]=zeros --arg halves=inout,bf16[2]=zeros

#include <cuda_bf16.h>

__device__ double add_by_swap(double* address, double value)
{
    unsigned long long* bits = reinterpret_cast<unsigned long long*>(address);
    unsigned long long old = *bits, assumed;
    do {
        assumed = old;
        old = atomicCAS(bits, assumed, __double_as_longlong(value + __longlong_as_double(assumed)));
    } while (assumed != old);
    return __longlong_as_double(old);
}

extern "C" __global__ void accumulate(const double* x, double* total, __nv_bfloat16* halves)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    add_by_swap(total, x[i]);
    atomicAdd(halves, __float2bfloat16(1.0f));
}
