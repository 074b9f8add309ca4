// Warp sums by a butterfly of shuffles. All lanes have the same sum and all store it: a note, not a finding.
// Expected: sums[w] = sum of the 32 elements of warp w.
// warpsmith: --arch sm_80 --kernel warp_sums --grid 2 --block 96 --shared 0
// warpsmith: --arg x=i32[192]=randint(6,-50,50) --arg sums=out,i32[6]

extern "C" __global__ void warp_sums(const int* x, int* sums)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    int v = x[i];
    for (int o = 16; o > 0; o >>= 1)
        v += __shfl_xor_sync(0xffffffffu, v, o);
    sums[i / 32] = v;
}
