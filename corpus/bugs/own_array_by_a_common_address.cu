// Warps fill an array of their own and store one of its elements. The pointer is equal in all threads, but it means
// another word in each of them.
// warpsmith: --arch sm_80 --kernel own --grid 1 --block 64 --shared 0
// warpsmith: --arg common=i32=0 --arg at=i32=1 --arg out=out,i32[1]
extern "C" __global__ void own(int common, int at, int* out) {
    __shared__ int shared[4];
    if (threadIdx.x < 4) shared[threadIdx.x] = 0;
    __syncthreads();
    int own[4];
    for (int i = 0; i < 4; i++) own[(i + at) % 4] = threadIdx.x / 32 * 10 + i;
    int* chosen = common ? shared : own;
    if (threadIdx.x % 32 == 0) out[0] = chosen[at];  //~ race
}
