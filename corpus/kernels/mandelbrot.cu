// Mandelbrot escape counts: trip counts differ between lanes.
// Expected: the iteration at which |z| passes 2, at most 100, computed in f32 exactly as written (no contraction).
// warpsmith: --arch sm_80 --kernel mandelbrot --grid 3,2 --block 16,8 --shared 0
// warpsmith: --arg count=out,i32[16,48] --arg w=i32=48 --arg h=i32=16

extern "C" __global__ void mandelbrot(int* count, int w, int h)
{
    const int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
    const float cx = __fadd_rn(__fmul_rn(px, 0.0625f), -2.25f), cy = __fadd_rn(__fmul_rn(py, 0.125f), -1.0f);
    float x = 0.0f, y = 0.0f;
    int n = 0;
    while (n < 100) {
        const float xx = __fmul_rn(x, x), yy = __fmul_rn(y, y);
        if (__fadd_rn(xx, yy) > 4.0f)
            break;
        y = __fadd_rn(__fmul_rn(__fmul_rn(2.0f, x), y), cy);
        x = __fadd_rn(__fadd_rn(xx, -yy), cx);
        ++n;
    }
    if (px < w && py < h)
        count[py * w + px] = n;
}
