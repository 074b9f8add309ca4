// Label propagation on a graph: every edge lowers the labels of both ends with atomicMin, from the labels of the last round.
// Expected: labels[v] = min of old[v] and old of all neighbours.
// warpsmith: --arch sm_80 --kernel propagate --grid 2 --block 64 --shared 0
// warpsmith: --arg from=i32[128]=randint(1,0,50) --arg to=i32[128]=randint(2,0,50) --arg old=i32[50]=iota --arg labels=inout,i32[50]=iota
// warpsmith: --arg changed=inout,i32[1]=zeros

extern "C" __global__ void propagate(const int* from, const int* to, const int* old, int* labels, int* changed)
{
    const int e = blockIdx.x * blockDim.x + threadIdx.x;
    const int a = from[e], b = to[e], low = min(old[a], old[b]);
    if (old[a] != old[b]) {
        atomicMin(&labels[a], low);
        atomicMin(&labels[b], low);
        *changed = 1;
    }
}
