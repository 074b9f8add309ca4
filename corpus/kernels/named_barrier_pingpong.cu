// Two groups of two warps take turns on a shared tile over named barriers 1 and 2 (bar.arrive and bar.sync).
// Expected: out[r][i] = x[i] after r + 1 alternating steps: group A adds the left neighbour, group B doubles.
// warpsmith: --arch sm_80 --kernel pingpong --grid 1 --block 128 --shared 0
// warpsmith: --arg x=i32[64]=randint(162,0,5) --arg out=out,i32[6,64]

__device__ __forceinline__ void sync(int id) { asm volatile("bar.sync %0, 128;" ::"r"(id) : "memory"); }
__device__ __forceinline__ void arrive(int id) { asm volatile("bar.arrive %0, 128;" ::"r"(id) : "memory"); }

extern "C" __global__ void pingpong(const int* x, int* out)
{
    __shared__ int s[64];
    const int group = threadIdx.x / 64, i = threadIdx.x % 64;
    if (group == 0) {
        s[i] = x[i];
        asm volatile("bar.sync 3, 64;" ::: "memory"); // the two warps of this group only
        for (int r = 0; r < 6; r += 2) {
            if (r > 0)
                sync(2);
            const int v = s[i] + s[(i + 63) & 63];
            asm volatile("bar.sync 3, 64;" ::: "memory");
            s[i] = v;
            out[r * 64 + i] = v;
            arrive(1);
        }
    } else {
        for (int r = 1; r < 6; r += 2) {
            sync(1);
            s[i] *= 2;
            out[r * 64 + i] = s[i];
            if (r < 5)
                arrive(2);
        }
    }
}
