// Chained scan across blocks: a block publishes its status before the value that the status refers to.
// warpsmith: --arch sm_80 --kernel chained --grid 6 --block 32 --shared 0
// warpsmith: --arg x=i32[192]=randint(3,0,10) --arg total=scratch,i32[6]
// warpsmith: --arg status=inout,i32[6]=zeros --arg out=out,i32[192]

extern "C" __global__ void chained(const int* x, int* total, volatile int* status, int* out)
{
    const int b = blockIdx.x, lane = threadIdx.x;
    int v = x[b * 32 + lane];
    for (int d = 1; d < 32; d <<= 1) {
        const int below = __shfl_up_sync(0xffffffffu, v, d);
        if (lane >= d)
            v += below;
    }
    int before = 0;
    if (lane == 31) {
        if (b > 0) {
            while (status[b - 1] == 0) {
            }
            __threadfence();
            before = total[b - 1]; //~ race //~? uninitialised
        }
        status[b] = 1;
        __threadfence();
        total[b] = before + v; //~| race
    }
    before = __shfl_sync(0xffffffffu, before, 31);
    out[b * 32 + lane] = before + v; //~? uninitialised
}
