// Threads write neighbouring bytes and half-words of the same words, in shared and in global memory: no two threads
// access the same byte, so this is not a race.
// Expected: packed[i] = x[i] & 255; halves[i] = x[i] & 65535.
// warpsmith: --arch sm_80 --kernel neighbours --grid 2 --block 96 --shared 0
// warpsmith: --arg x=i32[192]=randint(254,0,100000) --arg packed=out,u8[192] --arg halves=out,u16[192]

extern "C" __global__ void neighbours(const int* x, unsigned char* packed, unsigned short* halves)
{
    __shared__ unsigned char bytes[96];
    __shared__ unsigned short words[96];
    const int t = threadIdx.x, i = blockIdx.x * 96 + t;
    bytes[t] = (unsigned char)x[i];
    words[95 - t] = (unsigned short)x[i];
    __syncthreads();
    packed[blockIdx.x * 96 + 95 - t] = bytes[95 - t];
    halves[i] = words[95 - t];
}
