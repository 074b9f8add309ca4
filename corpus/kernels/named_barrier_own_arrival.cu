// Two groups of two warps take turns, each at its own named barrier. Group A arrives at its own barrier before the first
// turn, in the place of group B, as FlashAttention-3 does.
// warpsmith: --arch sm_80 --kernel turns --grid 1 --block 128 --shared 0
// warpsmith: --arg x=i32[64]=randint(9,0,5) --arg out=out,i32[6,64]

__device__ __forceinline__ void sync(int id) { asm volatile("bar.sync %0, 128;" ::"r"(id) : "memory"); }
__device__ __forceinline__ void arrive(int id) { asm volatile("bar.arrive %0, 128;" ::"r"(id) : "memory"); }

extern "C" __global__ void turns(const int* x, int* out)
{
    __shared__ int s[64];
    const int group = threadIdx.x / 64, i = threadIdx.x % 64;
    if (group == 0) {
        s[i] = x[i];
        arrive(1);
    }
    for (int r = group; r < 6; r += 2) {
        sync(1 + group);
        const int v = group == 0 ? s[i] + s[63 - i] : 2 * s[i];
        asm volatile("bar.sync %0, 64;" ::"r"(3 + group) : "memory"); // the two warps of this group only
        s[i] = v;
        out[r * 64 + i] = v;
        if (r < 5)
            arrive(2 - group);
    }
}
