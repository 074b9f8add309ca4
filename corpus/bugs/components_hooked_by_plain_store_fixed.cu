// Connected components: each edge lowers the label of its larger end with atomicMin and reads labels from the last round.
// warpsmith: --arch sm_80 --kernel hook --grid 2 --block 64 --shared 0
// warpsmith: --arg from=i32[128]=randint(1,0,64) --arg to=i32[128]=randint(2,0,64) --arg parent=inout,i32[64]=iota --arg last=i32[64]=iota

extern "C" __global__ void hook(const int* from, const int* to, int* parent, const int* last)
{
    const int e = blockIdx.x * blockDim.x + threadIdx.x;
    const int a = last[from[e]], b = last[to[e]];
    if (a != b)
        atomicMin(&parent[max(a, b)], min(a, b));
}
