// Register-prefetched double buffering with one barrier per iteration. The next tile is stored into the slot that is
// being read, not into the other one.
// warpsmith: --arch sm_80 --kernel rows_dot --grid 2 --block 64 --shared 0
// warpsmith: --arg a=f32[2,5,64]=normal(3) --arg out=out,f32[2,64] --arg tiles=i32=5

extern "C" __global__ void rows_dot(const float* a, float* out, int tiles)
{
    __shared__ float buf[2][64];
    const int t = threadIdx.x;
    const float* src = a + blockIdx.x * tiles * 64;
    buf[0][t] = src[t];
    __syncthreads();
    float acc = 0.0f;
    for (int k = 0; k < tiles; ++k) {
        float next = 0.0f;
        if (k + 1 < tiles)
            next = src[(k + 1) * 64 + t];
        const float* now = buf[k & 1];
        for (int j = 0; j < 64; j += 8)
            acc += now[(t + j) & 63] * (j + 1); //~ race //~? uninitialised
        buf[k & 1][t] = next; //~| race
        __syncthreads();
    }
    out[blockIdx.x * 64 + t] = acc; //~? uninitialised
}
