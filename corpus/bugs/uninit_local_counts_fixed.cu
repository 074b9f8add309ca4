// Per-thread counting of small keys in a cleared local array.
// warpsmith: --arch sm_80 --kernel mode_of_row --grid 2 --block 32 --shared 0
// warpsmith: --arg keys=u8[64,24]=randint(3,0,6) --arg mode=out,i32[64]

extern "C" __global__ void mode_of_row(const unsigned char* keys, int* mode)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    int count[6] = {};
    for (int c = 0; c < 24; ++c)
        count[keys[row * 24 + c]] += 1;
    int best = 0;
    for (int k = 1; k < 6; ++k)
        if (count[k] > count[best])
            best = k;
    mode[row] = best;
}
