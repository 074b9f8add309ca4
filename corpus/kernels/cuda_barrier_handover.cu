// cuda::barrier: a copy bound to a barrier by memcpy_async, then a split arrive and wait around independent work.
// Expected: out[b][t] = 2 in[b][(t + 1) mod 64] + t.
// warpsmith: --arch sm_80 --kernel handover --grid 2 --block 64 --shared 0
// warpsmith: --arg in=i32[2,64]=randint(160,0,1000) --arg out=out,i32[2,64]

#include <cooperative_groups.h>
#include <cuda/barrier>

#pragma nv_diag_suppress static_var_with_dynamic_init

extern "C" __global__ void handover(const int* in, int* out)
{
    using barrier = cuda::barrier<cuda::thread_scope_block>;
    __shared__ barrier bar;
    __shared__ alignas(16) int tile[64];
    __shared__ int doubled[64];
    const auto block = cooperative_groups::this_thread_block();
    const int t = threadIdx.x;
    if (t == 0)
        init(&bar, block.size());
    block.sync();

    cuda::memcpy_async(block, tile, in + blockIdx.x * 64, sizeof(tile), bar);
    bar.arrive_and_wait();

    doubled[t] = 2 * tile[t];
    auto token = bar.arrive();
    const int own = t; // work that needs no other thread
    bar.wait(cuda::std::move(token));
    out[blockIdx.x * 64 + t] = doubled[(t + 1) & 63] + own;
}
