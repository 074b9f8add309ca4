// Threads of a block exchange data through global memory with only __syncthreads, which orders global memory for the
// block. The warps of a block do the same with a fence and a volatile flag.
// Expected: out[b][t] = x[b][63 - t] + x[b][(t + 32) mod 64].
// warpsmith: --arch sm_80 --kernel exchange --grid 3 --block 64 --shared 0
// warpsmith: --arg x=i32[3,64]=randint(255,0,1000) --arg work=scratch,i32[3,64] --arg more=scratch,i32[3,64]
// warpsmith: --arg flag=inout,i32[3,2]=zeros --arg out=out,i32[3,64]

extern "C" __global__ void exchange(const int* x, int* work, int* more, volatile int* flag, int* out)
{
    const int t = threadIdx.x, base = blockIdx.x * 64, warp = t / 32;
    work[base + t] = x[base + t];
    __syncthreads();
    const int mirrored = work[base + 63 - t];

    more[base + t] = x[base + t];
    __syncwarp();
    if (t % 32 == 0) {
        __threadfence_block();
        flag[blockIdx.x * 2 + warp] = 1;
        while (flag[blockIdx.x * 2 + 1 - warp] == 0) {
        }
        __threadfence_block();
    }
    __syncwarp();
    out[base + t] = mirrored + more[base + (t + 32) % 64];
}
