// nearly_the_largest. Compares products that are rounded to 16 bits, so that it finds one of the largest.
// warpsmith: reference = "reference.py:largest"
// warpsmith: sizes = { rows = 40, cols = 200 }
// warpsmith: independent = "rows"
// warpsmith: launch = { grid = ["rows"], block = [32] }
// warpsmith: [arguments]
// warpsmith: x = "in fp16[rows, cols]"
// warpsmith: w = "in fp16[cols]"
// warpsmith: y = "out i32[rows]"
// warpsmith: cols = "size"
#include <cuda_fp16.h>

extern "C" __global__ void largest(const __half* x, const __half* w, int* y, int cols)
{
    auto value = [&](int i) { return __half2float(__hmul(x[blockIdx.x * cols + i], w[i])); };
    int best = threadIdx.x < cols ? threadIdx.x : 0;
    float most = value(best);
    for (int i = best; i < cols; i += 32) {
        const float now = value(i);
        if (now > most) most = now, best = i;
    }
    for (int step = 16; step > 0; step /= 2) {
        const float other = __shfl_xor_sync(~0u, most, step);
        const int index = __shfl_xor_sync(~0u, best, step);
        if (other > most || (other == most && index < best)) most = other, best = index;
    }
    if (threadIdx.x == 0) y[blockIdx.x] = best;
}
