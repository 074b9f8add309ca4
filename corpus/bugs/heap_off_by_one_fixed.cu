// Each thread collects the multiples of its number in memory from malloc, and sums them.
//
// warpsmith: --arch sm_80 --kernel multiples --grid 2 --block 32
// warpsmith: --arg sums=out,i32[64]
extern "C" __global__ void multiples(int* sums)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    int count = t + 1;
    int* list = (int*)malloc(count * sizeof(int));
    if (list == nullptr) return;
    for (int i = 0; i < count; ++i) list[i] = i * t;
    int sum = 0;
    for (int i = 0; i < count; ++i) sum += list[i];
    sums[t] = sum;
    free(list);
}
