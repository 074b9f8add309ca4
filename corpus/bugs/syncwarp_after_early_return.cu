// Warp-private exchange through shared memory; lanes without work have returned, but the others wait for all 32.
// warpsmith: --arch sm_80 --kernel rotate --grid 1 --block 128 --shared 0
// warpsmith: --arg x=i32[120]=iota --arg out=out,i32[120] --arg n=i32=120

extern "C" __global__ void rotate(const int* x, int* out, int n)
{
    __shared__ int s[4][32];
    const int i = threadIdx.x, warp = i / 32, lane = i % 32;
    if (i >= n)
        return;
    s[warp][lane] = x[i];
    __syncwarp(); //~ warp-mask
    const int width = min(32, n - warp * 32);
    out[i] = s[warp][(lane + 1) % width];
}
