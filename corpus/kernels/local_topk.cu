// Top-5 per row by insertion into a dynamically indexed local array, then ranks by a local histogram.
// Expected: best[r][0..5] = the five largest of the row's 40 values in descending order.
// warpsmith: --arch sm_80 --kernel topk --grid 1 --block 64 --shared 0
// warpsmith: --arg x=i32[64,40]=randint(174,-1000,1000) --arg best=out,i32[64,5] --arg cols=i32=40

extern "C" __global__ void topk(const int* x, int* best, int cols)
{
    int top[5];
    int filled = 0;
    const int row = threadIdx.x;
    for (int c = 0; c < cols; ++c) {
        const int v = x[row * cols + c];
        int at = filled;
        while (at > 0 && top[at - 1] < v)
            --at;
        if (at == 5)
            continue;
        for (int k = min(filled, 4); k > at; --k)
            top[k] = top[k - 1];
        top[at] = v;
        filled = min(filled + 1, 5);
    }
    for (int k = 0; k < 5; ++k)
        best[row * 5 + k] = top[k];
}
