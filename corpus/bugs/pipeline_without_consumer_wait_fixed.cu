// cuda::pipeline: acquire, copy, commit, wait, read, release.
// warpsmith: --arch sm_80 --kernel own_rows --grid 2 --block 64 --shared 0
// warpsmith: --arg x=f32[2,64,4]=normal(3) --arg y=out,f32[2,64]

#include <cuda/pipeline>

extern "C" __global__ void own_rows(const float* x, float* y)
{
    __shared__ alignas(16) float tile[64][4];
    const int t = threadIdx.x;
    auto pipe = cuda::make_pipeline();
    pipe.producer_acquire();
    cuda::memcpy_async(&tile[t][0], x + (blockIdx.x * 64 + t) * 4, cuda::aligned_size_t<16>(16), pipe);
    pipe.producer_commit();
    pipe.consumer_wait();
    const float sum = tile[t][0] + tile[t][1] + tile[t][2] + tile[t][3];
    pipe.consumer_release();
    y[blockIdx.x * 64 + t] = sum;
}
