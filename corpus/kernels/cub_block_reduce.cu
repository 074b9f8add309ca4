// CUB BlockReduce: sum, then maximum with its index (ArgMax), with the temporary storage reused after a barrier.
// Expected: sum[b] and the first index of the block's largest element (ties to the lowest index).
// warpsmith: --arch sm_80 --kernel block_reduce --grid 3 --block 128 --shared 0
// warpsmith: --arg in=f32[1500]=normal(61) --arg sum=out,f32[3] --arg arg_max=out,i32[3] --arg n=i32=1500

#include <cub/block/block_reduce.cuh>

struct KeyIndex {
    float key;
    int index;
};

struct Larger {
    __device__ KeyIndex operator()(const KeyIndex& a, const KeyIndex& b) const
    {
        return b.key > a.key || (b.key == a.key && b.index < a.index) ? b : a;
    }
};

extern "C" __global__ void block_reduce(const float* in, float* sum, int* arg_max, int n)
{
    using Sum = cub::BlockReduce<float, 128>;
    using ArgMax = cub::BlockReduce<KeyIndex, 128>;
    __shared__ union {
        typename Sum::TempStorage sum;
        typename ArgMax::TempStorage arg;
    } temp;

    float s = 0.0f;
    KeyIndex best{-INFINITY, 0x7fffffff};
    const int begin = blockIdx.x * 500, end = min(begin + 500, n);
    for (int i = begin + threadIdx.x; i < end; i += blockDim.x) {
        s += in[i];
        best = Larger{}(best, KeyIndex{in[i], i});
    }
    s = Sum(temp.sum).Sum(s);
    __syncthreads();
    best = ArgMax(temp.arg).Reduce(best, Larger{});
    if (threadIdx.x == 0) {
        sum[blockIdx.x] = s;
        arg_max[blockIdx.x] = best.index;
    }
}
