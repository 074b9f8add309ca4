// Warp sum with the full mask.
// warpsmith: --arch sm_80 --kernel warp_sums --grid 2 --block 96 --shared 0
// warpsmith: --arg x=i32[192]=randint(3,0,100) --arg sums=out,i32[6]

constexpr unsigned MASK = 0xffffffffu;

extern "C" __global__ void warp_sums(const int* x, int* sums)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    int v = x[i];
    for (int o = 16; o > 0; o >>= 1)
        v += __shfl_xor_sync(MASK, v, o);
    if ((threadIdx.x & 31) == 0)
        sums[i / 32] = v;
}
