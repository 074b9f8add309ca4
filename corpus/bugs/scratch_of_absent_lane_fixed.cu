// Neighbouring threads exchange values and leave them in a workspace for the next kernel. The block has 80 threads, and
// lanes of the last warp whose partner does not exist keep their own value.
// warpsmith: --arch sm_80 --kernel exchange --grid 2 --block 80 --shared 0
// warpsmith: --arg in=i32[160]=iota --arg work=scratch,i32[160]
extern "C" __global__ void exchange(const int* in, int* work) {
    int at = blockIdx.x * 80 + threadIdx.x;
    bool is_last = threadIdx.x >= 64;
    int far = __shfl_down_sync(is_last ? 0xffffu : 0xffffffffu, in[at], 8, is_last ? 16 : 32);
    work[at] = far;
}
