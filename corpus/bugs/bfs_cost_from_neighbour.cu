// Breadth-first search by levels. The cost of a new node is computed from the cost in memory, and several threads store it
// without order.
// warpsmith: --arch sm_80 --kernel expand --grid 2 --block 64 --shared 0
// warpsmith: --arg edges=i32[128,4]=randint(3,0,160) --arg cost=i32[128]=const(7) --arg next=inout,i32[160]=const(-1) --arg level=i32=7

extern "C" __global__ void expand(const int* edges, const int* cost, int* next, int level)
{
    const int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (cost[node] != level)
        return;
    for (int e = 0; e < 4; ++e)
        next[edges[node * 4 + e]] = cost[node] + 1; //~ race
}
