// Interleaved bytes to luma: three byte loads per pixel, integer weights, uchar4 stores for four pixels per thread.
// Expected: gray = (77 r + 150 g + 29 b + 128) >> 8.
// warpsmith: --arch sm_80 --kernel gray --grid 2 --block 50 --shared 0
// warpsmith: --arg rgb=u8[400,3]=randint(183,0,256) --arg out=out,u8[400]

extern "C" __global__ void gray(const unsigned char* rgb, uchar4* out)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned char v[4];
    for (int k = 0; k < 4; ++k) {
        const unsigned char* p = rgb + (i * 4 + k) * 3;
        v[k] = (77 * p[0] + 150 * p[1] + 29 * p[2] + 128) >> 8;
    }
    out[i] = make_uchar4(v[0], v[1], v[2], v[3]);
}
