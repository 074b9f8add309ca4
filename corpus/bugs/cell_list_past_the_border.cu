// Particles look at the cells around their own. Cells at the border have neighbours outside the table.
// warpsmith: --arch sm_80 --kernel neighbours --grid 1 --block 64 --shared 0
// warpsmith: --arg counts=i32[8,8]=randint(1,0,5) --arg total=out,i32[8,8]

extern "C" __global__ void neighbours(const int* counts, int* total)
{
    const int x = threadIdx.x % 8, y = threadIdx.x / 8;
    int sum = 0;
    for (int cy = y - 1; cy <= y + 1; ++cy)
        for (int cx = x - 1; cx <= x + 1; ++cx)
            sum += counts[cy * 8 + cx]; //~ out-of-bounds
    total[y * 8 + x] = sum;
}
