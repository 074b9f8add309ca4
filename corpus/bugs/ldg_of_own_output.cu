// Two steps of a smoothing filter over the tile of a block, in place. The second step reads what the first step wrote
// through the read-only cache, which may still hold the old values.
// warpsmith: --arch sm_80 --kernel smooth_twice --grid 3 --block 64 --shared 0 --arg x=inout,f32[192]=uniform(2)
extern "C" __global__ void smooth_twice(float* x) {
    float* tile = x + blockIdx.x * 64;
    int i = threadIdx.x;
    for (int step = 0; step < 2; ++step) {
        float left = __ldg(tile + (i + 63) % 64);   //~ race
        float right = __ldg(tile + (i + 1) % 64);   //~ race
        __syncthreads();
        tile[i] = 0.5f * (left + right);
        __syncthreads();
    }
}
