// One block per row: the threads add the squares of their elements, combine their sums, and scale the row.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// The constants of the manifest: axis::dtype, knob::THREADS, smem::partials.
#include "generated.cuh"

extern __shared__ __align__(16) unsigned char shared_memory[];

using Element = axis::Element<>;

// The sum over all threads of the block, in a fixed order, so that equal inputs give equal bits.
__device__ float block_sum(float sum) {
    float* partials = reinterpret_cast<float*>(shared_memory + smem::partials::offset);
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffff, sum, distance);
    if (threadIdx.x % 32 == 0) partials[threadIdx.x / 32] = sum;
    __syncthreads();
    float total = 0;
    for (int warp = 0; warp < knob::THREADS / 32; ++warp) total += partials[warp];
    return total;
}

// The column of a thread's element number `index`.
__device__ int column(int index, int cols) {
    if (!knob::STRIDED) return index * knob::THREADS + threadIdx.x;
    int per_thread = (cols + knob::THREADS - 1) / knob::THREADS;
    return index < per_thread ? threadIdx.x * per_thread + index : cols;
}

extern "C" __global__ void __launch_bounds__(knob::THREADS)
    NAME_block(const Element* x, const Element* weight, Element* y, float eps, int cols) {
    const Element* row = x + static_cast<size_t>(blockIdx.x) * cols;
    Element* result = y + static_cast<size_t>(blockIdx.x) * cols;
    int per_thread = (cols + knob::THREADS - 1) / knob::THREADS;

    float sum = 0;
#pragma unroll knob::UNROLL
    for (int index = 0; index < per_thread; ++index) {
        int col = column(index, cols);
        float value = col < cols ? static_cast<float>(row[col]) : 0.0f;
        sum += value * value;
    }
    float scale = rsqrtf(block_sum(sum) / cols + eps);

#pragma unroll knob::UNROLL
    for (int index = 0; index < per_thread; ++index) {
        int col = column(index, cols);
        if (col < cols) result[col] = static_cast<float>(row[col]) * scale * static_cast<float>(weight[col]);
    }
}
