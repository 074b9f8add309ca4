// Every thread that finds a duplicate stores the same "found" value to the same word without ordering. This is a benign
// race that programs rely on: a note is allowed, a finding is not.
// Expected: seen[k] = 1 for every key that occurs, any[0] = 1.
// warpsmith: --arch sm_80 --kernel mark --grid 3 --block 64 --shared 0
// warpsmith: --arg keys=i32[192]=randint(208,0,40) --arg seen=inout,u8[64]=zeros --arg any=inout,i32[1]=zeros

extern "C" __global__ void mark(const int* keys, unsigned char* seen, int* any)
{
    const int key = keys[blockIdx.x * blockDim.x + threadIdx.x];
    seen[key] = 1;
    if (key >= 0)
        *any = 1;
}
