// Every warp chooses between a common default and its own entry, and stores it in its own place.
// warpsmith: --arch sm_80 --kernel choose --grid 1 --block 64 --shared 0
// warpsmith: --arg in=i32[16]=iota --arg out=out,i32[2]
extern "C" __global__ void choose(const int* in, int* out) {
    if (threadIdx.x % 32 == 0) {
        int own = in[4 + threadIdx.x / 32];
        out[threadIdx.x / 32] = in[0] > 5 ? in[2] : own;
    }
}
