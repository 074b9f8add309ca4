// cuda::pipeline with block scope and two stages: the whole block copies and consumes tiles.
// Expected: out[b][t] = the sum over tiles of the element opposite t in its tile.
// warpsmith: --arch sm_80 --kernel staged --grid 2 --block 64 --shared 0
// warpsmith: --arg in=i32[2,5,64]=randint(159,-50,50) --arg out=out,i32[2,64] --arg tiles=i32=5

#include <cooperative_groups.h>
#include <cuda/pipeline>

#pragma nv_diag_suppress static_var_with_dynamic_init

extern "C" __global__ void staged(const int* in, int* out, int tiles)
{
    constexpr int STAGES = 2;
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, STAGES> shared_state;
    __shared__ alignas(16) int buffer[STAGES][64];
    const auto block = cooperative_groups::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &shared_state);
    const int* src = in + blockIdx.x * tiles * 64;

    int acc = 0;
    for (int compute = 0, fetch = 0; compute < tiles; ++compute) {
        for (; fetch < tiles && fetch < compute + STAGES; ++fetch) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, buffer[fetch % STAGES], src + fetch * 64, cuda::aligned_size_t<16>(256), pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        acc += buffer[compute % STAGES][63 - threadIdx.x];
        pipe.consumer_release();
    }
    out[blockIdx.x * 64 + threadIdx.x] = acc;
}
