// Neighbouring threads exchange values and leave them in a workspace for the next kernel. The block has 80 threads, but
// the mask of the last warp names all 32 lanes, of which 16 do not exist.
// warpsmith: --arch sm_80 --kernel exchange --grid 2 --block 80 --shared 0
// warpsmith: --arg in=i32[160]=iota --arg work=scratch,i32[160]
extern "C" __global__ void exchange(const int* in, int* work) {
    int at = blockIdx.x * 80 + threadIdx.x;
    int far = __shfl_down_sync(0xffffffff, in[at], 8);  //~ warp-mask
    work[at] = far;
}
