// Consumers and producer both wait on named barrier 1.
// warpsmith: --arch sm_80 --kernel mixed --grid 1 --block 64 --shared 0
// warpsmith: --arg x=i32[32]=iota --arg y=out,i32[32]

extern "C" __global__ void mixed(const int* x, int* y)
{
    __shared__ int s[32];
    const int lane = threadIdx.x & 31;
    if (threadIdx.x < 32) {
        s[lane] = x[lane] * 7;
        asm volatile("bar.sync 1, 64;" ::: "memory");
    } else {
        asm volatile("bar.sync 1, 64;" ::: "memory");
        y[lane] = s[31 - lane];
    }
}
