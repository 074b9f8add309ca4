// Global histogram with one atomic per distinct key and warp: __match_any_sync finds the peers.
// Expected: bins[k] = initial + the number of keys equal to k.
// warpsmith: --arch sm_80 --kernel histogram --grid 2 --block 96 --shared 0
// warpsmith: --arg keys=i32[500]=randint(134,0,10) --arg bins=inout,u32[10]=iota --arg n=i32=500

extern "C" __global__ void histogram(const int* keys, unsigned* bins, int n)
{
    const int lane = threadIdx.x & 31;
    for (int base = blockIdx.x * blockDim.x; base < n; base += gridDim.x * blockDim.x) {
        const int i = base + threadIdx.x;
        const unsigned here = __ballot_sync(0xffffffffu, i < n);
        if (i < n) {
            const int key = keys[i];
            const unsigned peers = __match_any_sync(here, key);
            if (lane == 31 - __clz(peers))
                atomicAdd(&bins[key], __popc(peers));
        }
    }
}
