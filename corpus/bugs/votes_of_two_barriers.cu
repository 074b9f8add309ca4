// Each warp counts its votes at a barrier of its own. Both warps store their count, in one place.
// warpsmith: --arch sm_80 --kernel votes --grid 1 --block 64 --shared 0
// warpsmith: --arg out=out,i32[1]
__device__ int count(int barrier, int vote) {
    int votes;
    asm volatile("{.reg .pred p; setp.ne.s32 p, %2, 0; barrier.cta.red.popc.u32 %0, %1, 32, p;}"
                 : "=r"(votes)
                 : "r"(barrier), "r"(vote)
                 : "memory");
    return votes;
}
extern "C" __global__ void votes(int* out) {
    int warp = threadIdx.x / 32;
    int votes = count(1 + warp, warp);
    if (threadIdx.x % 32 == 0) out[0] = votes;  //~ race
}
