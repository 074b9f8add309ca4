// A spin lock that is taken with a compare-and-swap and released with a plain store.
// warpsmith: --arch sm_80 --kernel add_under_lock --grid 4 --block 32 --shared 0
// warpsmith: --arg lock=inout,i32[1]=zeros --arg total=inout,i32[1]=zeros

extern "C" __global__ void add_under_lock(int* lock, int* total)
{
    if (threadIdx.x == 0) {
        while (atomicCAS(lock, 0, 1) != 0) //~ race
            ;
        __threadfence();
        *total += blockIdx.x; //~? race
        __threadfence();
        *lock = 0; //~| race
    }
}
