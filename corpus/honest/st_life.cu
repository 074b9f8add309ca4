// warpsmith: reference = "ref.py:life"
// warpsmith: sizes = { h = 30, w = 40 }
// warpsmith: launch = { grid = ["ceil_div(w, 32)", "ceil_div(h, 4)"], block = [32, 4] }
// warpsmith: [arguments]
// warpsmith: x = "in u8[h, w] = 0..1"
// warpsmith: y = "out u8[h, w]"
// warpsmith: h = "size"
// warpsmith: w = "size"
__global__ void st_life(const unsigned char* x, unsigned char* y, int h, int w) {
    int i = blockIdx.y * 4 + threadIdx.y, j = blockIdx.x * 32 + threadIdx.x;
    if (i >= h || j >= w) return;
    int n = 0;
    for (int a = -1; a <= 1; ++a)
        for (int b = -1; b <= 1; ++b)
            if (a || b) n += x[(i + a + h) % h * w + (j + b + w) % w];
    y[i * w + j] = n == 3 || (x[i * w + j] && n == 2);
}
