// Connected components: each edge hooks the larger root under the smaller one with a plain store, and other threads follow
// the same links.
// warpsmith: --arch sm_80 --kernel hook --grid 2 --block 64 --shared 0
// warpsmith: --arg from=i32[128]=randint(1,0,64) --arg to=i32[128]=randint(2,0,64) --arg parent=inout,i32[64]=iota --arg last=i32[64]=iota

extern "C" __global__ void hook(const int* from, const int* to, int* parent, const int* last)
{
    const int e = blockIdx.x * blockDim.x + threadIdx.x;
    int a = from[e], b = to[e];
    while (parent[a] != a) //~ race
        a = parent[a];
    while (parent[b] != b) //~? race
        b = parent[b]; //~? race
    if (a != b)
        parent[max(a, b)] = min(a, b); //~| race
}
