// Warps count under a lock and then leave what they found in one place without it. The lock orders the loads of the
// counter, so they differ.
// warpsmith: --arch sm_80 --kernel count --grid 4 --block 64 --shared 0
// warpsmith: --arg lock=inout,i32[1]=zeros --arg counter=inout,i32[1]=zeros --arg last=out,i32[1]
extern "C" __global__ void count(int* lock, int* counter, int* last) {
    if (threadIdx.x % 32 == 0) {
        while (atomicCAS(lock, 0, 1) != 0) {}
        __threadfence();
        int found = *counter;
        *counter = found + 1;
        __threadfence();
        atomicExch(lock, 0);
        *last = found;  //~ race
    }
}
