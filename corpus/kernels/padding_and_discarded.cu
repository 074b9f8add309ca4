// Uninitialised values that have no effect: struct padding is copied with its struct through shared and global
// memory, a pad column is shuffled, and a lane without data computes with an uninitialised register and discards the
// result.
// Expected: value and label hold the fields of the opposite item of the block; sums[w] = the sum of the warp's first
// count[w] elements.
// warpsmith: --arch sm_80 --kernel padded --grid 2 --block 64 --shared 0
// warpsmith: --arg in=f32[128]=normal(209) --arg tag=u8[128]=randint(210,0,200) --arg count=i32[4]=randint(211,1,32)
// warpsmith: --arg out=scratch,u8[128,8] --arg value=out,f32[128] --arg label=out,u8[128] --arg sums=out,f32[4]

struct alignas(8) Item {
    unsigned char tag; // three bytes of padding follow
    float value;
};

extern "C" __global__ void padded(const float* in, const unsigned char* tag, const int* count, Item* out, float* value,
                                  unsigned char* label, float* sums)
{
    __shared__ Item items[64];
    __shared__ float tile[2][33]; // the last column is padding that is never written
    const int t = threadIdx.x, i = blockIdx.x * 64 + t, lane = t & 31, warp = t >> 5;
    items[t].tag = tag[i];
    items[t].value = in[i];
    tile[warp][lane] = in[i];
    __syncthreads();
    // Copied as one 8-byte word, including the padding.
    reinterpret_cast<uint2*>(out)[i] = reinterpret_cast<const uint2*>(items)[63 - t];
    value[i] = out[i].value;
    label[i] = out[i].tag;

    const int n = count[i / 32];
    float v = tile[warp][lane + 1]; // lane 31 reads the padding
    v = __shfl_up_sync(0xffffffffu, v, 1);
    if (lane == 0)
        v = tile[warp][0];
    float sum = lane < n ? v : 0.0f;
    for (int o = 16; o > 0; o >>= 1)
        sum += __shfl_xor_sync(0xffffffffu, sum, o);
    if (lane == 0)
        sums[i / 32] = sum;
}
