// cuda::pipeline with block scope: the stage is released before it is read, so the next copy may overwrite it.
// warpsmith: --arch sm_80 --kernel staged --grid 1 --block 64 --shared 0
// warpsmith: --arg in=i32[6,64]=randint(3,0,100) --arg out=out,i32[64] --arg tiles=i32=6

#include <cooperative_groups.h>
#include <cuda/pipeline>

#pragma nv_diag_suppress static_var_with_dynamic_init

extern "C" __global__ void staged(const int* in, int* out, int tiles)
{
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    __shared__ alignas(16) int buffer[2][64];
    const auto block = cooperative_groups::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    int acc = 0;
    for (int compute = 0, fetch = 0; compute < tiles; ++compute) {
        for (; fetch < tiles && fetch < compute + 2; ++fetch) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, buffer[fetch & 1], in + fetch * 64, cuda::aligned_size_t<16>(256), pipe); //~ race
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        pipe.consumer_release();
        acc += buffer[compute & 1][63 - threadIdx.x]; //~| race //~| async-not-waited
    }
    out[threadIdx.x] = acc;
}
