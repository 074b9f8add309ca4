// Every warp chooses between a common default and its own entry. The data choose the own entries, which differ.
// warpsmith: --arch sm_80 --kernel choose --grid 1 --block 64 --shared 0
// warpsmith: --arg in=i32[16]=iota --arg out=out,i32[1]
extern "C" __global__ void choose(const int* in, int* out) {
    if (threadIdx.x % 32 == 0) {
        int own = in[4 + threadIdx.x / 32];
        out[0] = in[0] > 5 ? in[2] : own;  //~ race
    }
}
