// CUB BlockRadixSort of float keys with int values, blocked to striped, descending.
// Expected: each segment of 256 keys in descending order, the values following (equal keys keep their order).
// warpsmith: --arch sm_80 --kernel radix_sort --grid 2 --block 64 --shared 0
// warpsmith: --arg keys=inout,f32[512]=normal(71) --arg values=inout,i32[512]=iota

#include <cub/block/block_radix_sort.cuh>

extern "C" __global__ void radix_sort(float* keys, int* values)
{
    using Sort = cub::BlockRadixSort<float, 64, 4, int>;
    __shared__ typename Sort::TempStorage temp;
    float k[4];
    int v[4];
    const int base = blockIdx.x * 256;
    for (int j = 0; j < 4; ++j) {
        k[j] = keys[base + threadIdx.x * 4 + j];
        v[j] = values[base + threadIdx.x * 4 + j];
    }
    Sort(temp).SortDescendingBlockedToStriped(k, v);
    for (int j = 0; j < 4; ++j) {
        keys[base + j * 64 + threadIdx.x] = k[j];
        values[base + j * 64 + threadIdx.x] = v[j];
    }
}
