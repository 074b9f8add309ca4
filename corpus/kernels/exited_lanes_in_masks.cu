// Threads past the end return first. The masks of the warp operations and the barrier of the block still name them, which
// CUDA allows: only threads that have not exited take part.
// Expected: counts[k] = occurrences of key k, rotated[i] = the next element of the warp.
// warpsmith: --arch sm_80 --kernel count_and_rotate --grid 1 --block 128 --shared 0
// warpsmith: --arg keys=i32[116]=randint(3,0,7) --arg counts=out,i32[7] --arg rotated=out,i32[116] --arg n=i32=116

extern "C" __global__ void count_and_rotate(const int* keys, int* counts, int* rotated, int n)
{
    __shared__ int bins[7];
    __shared__ int s[4][32];
    const int i = threadIdx.x, warp = i / 32, lane = i % 32;
    if (i >= n)
        return;
    if (i < 7)
        bins[i] = 0;
    __syncthreads();
    const int key = keys[i];
    const unsigned peers = __match_any_sync(0xffffffffu, key);
    if (lane == __ffs(peers) - 1)
        atomicAdd(&bins[key], __popc(peers));
    s[warp][lane] = key;
    __syncwarp();
    const int width = min(32, n - warp * 32);
    rotated[i] = s[warp][(lane + 1) % width];
    __syncthreads();
    if (i < 7)
        counts[i] = bins[i];
}
