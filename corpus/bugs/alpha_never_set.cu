// Brightens pixels of four bytes in place. The fourth byte of the new pixel is never set.
// warpsmith: --arch sm_80 --kernel brighten --grid 2 --block 32 --shared 0 --arg image=inout,u8[64,4]=randint(3,0,200)

extern "C" __global__ void brighten(uchar4* image)
{
    const int i = blockIdx.x * 32 + threadIdx.x;
    const uchar4 old = image[i];
    uchar4 now;
    now.x = old.x + 20;
    now.y = old.y + 20;
    now.z = old.z + 20;
    image[i] = now; //~ uninitialised
}
