// Per-bucket spin locks taken by single lanes: each thread adds itself to the list of its bucket. This needs
// independent thread scheduling: the lane that holds the lock must be able to run while its neighbours spin.
// Expected: count[b] = the number of keys in bucket b; every list, followed from head[b], contains exactly those
// threads. The weighted sum chain[b] of the list's members is compared instead of the order.
// warpsmith: --arch sm_80 --kernel push_all --grid 2 --block 64 --shared 0
// warpsmith: --arg keys=i32[128]=randint(153,0,6) --arg lock=inout,i32[6]=zeros --arg head=inout,i32[6]=const(-1)
// warpsmith: --arg next=out,i32[128] --arg count=inout,i32[6]=zeros --arg chain=inout,i64[6]=zeros

extern "C" __global__ void push_all(const int* keys, int* lock, int* head, int* next, int* count, long long* chain)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int b = keys[i];
    bool done = false;
    while (!done) {
        if (atomicCAS(&lock[b], 0, 1) == 0) {
            __threadfence();
            next[i] = head[b];
            head[b] = i;
            count[b] += 1;
            chain[b] += (long long)i * i;
            __threadfence();
            atomicExch(&lock[b], 0);
            done = true;
        }
    }
}
