// The flat index of a 200 x 200 image is kept in a short: beyond row 163 it becomes negative.
// warpsmith: --arch sm_80 --kernel invert --grid 4 --block 64 --shared 0
// warpsmith: --arg img=u8[200,200]=randint(3,0,256) --arg out=out,u8[200,200] --arg size=i32=200

extern "C" __global__ void invert(const unsigned char* img, unsigned char* out, int size)
{
    for (int y = blockIdx.x; y < size; y += gridDim.x)
        for (int x = threadIdx.x; x < size; x += blockDim.x) {
            const short at = y * size + x;
            out[at] = 255 - img[at]; //~ out-of-bounds
            //~? unwritten-output
        }
}
