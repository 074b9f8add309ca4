// Warp-specialised tile loop: one producer warp fills the tile, three consumers use it. The producer strides by the
// block's threads instead of its own 32, so most of the tile is never filled.
// warpsmith: --arch sm_80 --kernel specialised --grid 2 --block 128 --shared 0
// warpsmith: --arg in=f32[2,3,192]=normal(3) --arg out=out,f32[2,96] --arg tiles=i32=3

extern "C" __global__ void specialised(const float* in, float* out, int tiles)
{
    __shared__ float tile[192];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const float* src = in + blockIdx.x * tiles * 192;
    float acc = 0.0f;
    for (int k = 0; k < tiles; ++k) {
        if (warp == 0) {
            for (int i = lane; i < 192; i += blockDim.x)
                tile[i] = src[k * 192 + i];
        }
        __syncthreads();
        if (warp > 0) {
            const int c = threadIdx.x - 32;
            acc += tile[c] * tile[191 - c]; //~ uninitialised
        }
        __syncthreads();
    }
    if (warp > 0)
        out[blockIdx.x * 96 + threadIdx.x - 32] = acc; //~| uninitialised
}
