// Search by many blocks: the flag is set and read atomically.
// warpsmith: --arch sm_80 --kernel search --grid 4 --block 32 --shared 0
// warpsmith: --arg x=i32[4,512]=randint(3,0,300) --arg key=i32=77 --arg found=inout,i32[1]=const(-1)

extern "C" __global__ void search(const int* x, int key, int* found)
{
    const int* mine = x + blockIdx.x * 512;
    for (int i = threadIdx.x; i < 512; i += 32) {
        if (atomicAdd(found, 0) >= 0)
            break;
        if (mine[i] == key)
            atomicExch(found, blockIdx.x * 512 + i);
    }
}
