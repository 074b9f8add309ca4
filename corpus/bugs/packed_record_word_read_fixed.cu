// Records of 7 bytes: a tag, a 16-bit size and a 32-bit value that is assembled from bytes.
// warpsmith: --arch sm_80 --kernel parse --grid 1 --block 64 --shared 0
// warpsmith: --arg bytes=u8[448]=randint(3,0,256) --arg values=out,u32[64] --arg tags=out,u8[64]

extern "C" __global__ void parse(const unsigned char* bytes, unsigned* values, unsigned char* tags)
{
    const int i = threadIdx.x;
    const unsigned char* record = bytes + i * 7;
    tags[i] = record[0];
    values[i] = record[3] | record[4] << 8 | record[5] << 16 | (unsigned)record[6] << 24;
}
