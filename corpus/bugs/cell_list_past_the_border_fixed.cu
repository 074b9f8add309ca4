// Particles look at the cells around their own that exist.
// warpsmith: --arch sm_80 --kernel neighbours --grid 1 --block 64 --shared 0
// warpsmith: --arg counts=i32[8,8]=randint(1,0,5) --arg total=out,i32[8,8]

extern "C" __global__ void neighbours(const int* counts, int* total)
{
    const int x = threadIdx.x % 8, y = threadIdx.x / 8;
    int sum = 0;
    for (int cy = max(y - 1, 0); cy <= min(y + 1, 7); ++cy)
        for (int cx = max(x - 1, 0); cx <= min(x + 1, 7); ++cx)
            sum += counts[cy * 8 + cx];
    total[y * 8 + x] = sum;
}
