// CUB BlockLoad with warp transpose, a guarded tail with a default value, and BlockStore with transpose.
// Expected: out[i] = 3 in[i] - 1 for i < n; partial[b] = the sum of the block's valid inputs.
// warpsmith: --arch sm_80 --kernel load_store --grid 3 --block 64 --shared 0
// warpsmith: --arg in=i32[700]=randint(73,-10,10) --arg out=out,i32[700] --arg partial=out,i32[3] --arg n=i32=700

#include <cub/block/block_load.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_store.cuh>

extern "C" __global__ void load_store(const int* in, int* out, int* partial, int n)
{
    using Load = cub::BlockLoad<int, 64, 4, cub::BLOCK_LOAD_WARP_TRANSPOSE>;
    using Store = cub::BlockStore<int, 64, 4, cub::BLOCK_STORE_TRANSPOSE>;
    using Reduce = cub::BlockReduce<int, 64, cub::BLOCK_REDUCE_RAKING>;
    __shared__ union {
        typename Load::TempStorage load;
        typename Store::TempStorage store;
        typename Reduce::TempStorage reduce;
    } temp;
    const int base = blockIdx.x * 256, valid = min(256, n - base);
    int v[4];
    Load(temp.load).Load(in + base, v, valid, 0);
    __syncthreads();
    const int sum = Reduce(temp.reduce).Sum(v);
    if (threadIdx.x == 0)
        partial[blockIdx.x] = sum;
    for (int k = 0; k < 4; ++k)
        v[k] = 3 * v[k] - 1;
    __syncthreads();
    Store(temp.store).Store(out + base, v, valid);
}
