// Two warps each take two locks, in opposite order. A barrier in between ensures that both hold their first lock, so
// neither ever gets its second.
// warpsmith: --arch sm_80 --kernel transfer --grid 1 --block 64 --shared 0
// warpsmith: --arg account=inout,i32[2]=const(100) --arg locks=inout,i32[2]=zeros

__device__ void lock(int* l)
{
    while (atomicCAS(l, 0, 1) != 0) //~ deadlock //~| runaway
        ;
    __threadfence();
}

__device__ void unlock(int* l)
{
    __threadfence();
    atomicExch(l, 0);
}

extern "C" __global__ void transfer(int* account, int* locks)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int from = warp, to = 1 - warp;
    if (lane == 0)
        lock(&locks[from]); //~| deadlock //~| runaway
    __syncthreads();
    if (lane == 0) {
        lock(&locks[to]); //~| deadlock //~| runaway
        account[from] -= 10 + warp;
        account[to] += 10 + warp;
        unlock(&locks[to]);
        unlock(&locks[from]);
    }
}
