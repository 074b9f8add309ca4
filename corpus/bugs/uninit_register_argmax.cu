// Largest entry of each CSR row. The running best is never initialised, so the first comparison of every row uses an
// uninitialised register.
// warpsmith: --arch sm_80 --kernel row_argmax --grid 2 --block 32 --shared 0
// warpsmith: --arg x=f32[64,9]=normal(3) --arg arg=out,i32[64] --arg cols=i32=9

extern "C" __global__ void row_argmax(const float* x, int* arg, int cols)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    float best;
    int at;
    for (int c = 0; c < cols; ++c) {
        const float v = x[row * cols + c];
        if (v > best) { //~ uninitialised
            best = v;
            at = c;
        }
    }
    arg[row] = at; //~| uninitialised
}
