// A spin lock guards a shared record. Acquiring and releasing the lock are atomic, but the record's loads and stores
// are not ordered with them.
// warpsmith: --arch sm_80 --kernel record --grid 4 --block 32 --shared 0
// warpsmith: --arg x=f32[128]=normal(3) --arg lock=inout,i32[1]=zeros
// warpsmith: --arg best=inout,f32[1]=const(-1000) --arg at=inout,i32[1]=const(-1)

extern "C" __global__ void record(const float* x, int* lock, float* best, int* at)
{
    const int i = blockIdx.x * 32 + threadIdx.x;
    float v = x[i];
    int who = i;
    for (int o = 16; o > 0; o >>= 1) {
        const float other = __shfl_xor_sync(0xffffffffu, v, o);
        const int id = __shfl_xor_sync(0xffffffffu, who, o);
        if (other > v || (other == v && id < who)) {
            v = other;
            who = id;
        }
    }
    if (threadIdx.x == 0) {
        while (atomicCAS(lock, 0, 1) != 0)
            __nanosleep(20);
        if (v > *best) { //~ race
            *best = v; //~| race
            *at = who; //~| race
        }
        atomicExch(lock, 0);
    }
}
