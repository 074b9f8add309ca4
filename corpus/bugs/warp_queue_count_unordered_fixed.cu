// Warp-private queue in shared memory: lane 0 stores the count, and the lanes read it after a __syncwarp.
// warpsmith: --arch sm_80 --kernel queue --grid 1 --block 64 --shared 0
// warpsmith: --arg x=i32[64]=randint(3,-20,20) --arg y=out,i32[64]

extern "C" __global__ void queue(const int* x, int* y)
{
    __shared__ int items[2][32];
    __shared__ int count[2];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int v = x[threadIdx.x];
    const unsigned keep = __ballot_sync(0xffffffffu, v > 0);
    if (v > 0)
        items[warp][__popc(keep & ((1u << lane) - 1))] = v;
    if (lane == 0)
        count[warp] = __popc(keep);
    __syncwarp();
    const int n = count[warp];
    __syncwarp();
    y[threadIdx.x] = lane < n ? items[warp][lane] : 0;
}
