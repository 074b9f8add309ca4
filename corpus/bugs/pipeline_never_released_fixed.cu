// cuda::pipeline with two stages, each released after it has been read.
// warpsmith: --arch sm_80 --kernel staged_sum --grid 2 --block 64 --shared 0
// warpsmith: --arg in=i32[2,6,64]=randint(32,-50,50) --arg out=out,i32[2,64] --arg tiles=i32=6

#include <cooperative_groups.h>
#include <cuda/pipeline>

#pragma nv_diag_suppress static_var_with_dynamic_init

extern "C" __global__ void staged_sum(const int* in, int* out, int tiles)
{
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    __shared__ alignas(16) int buffer[2][64];
    const auto block = cooperative_groups::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    const int* src = in + blockIdx.x * tiles * 64;

    int sum = 0;
    for (int compute = 0, fetch = 0; compute < tiles; ++compute) {
        for (; fetch < tiles && fetch < compute + 2; ++fetch) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, buffer[fetch % 2], src + fetch * 64, cuda::aligned_size_t<16>(256), pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        sum += buffer[compute % 2][63 - threadIdx.x];
        pipe.consumer_release();
    }
    out[blockIdx.x * 64 + threadIdx.x] = sum;
}
