// Breadth-first search from vertex 0 over a 4-out-regular graph in one block, frontier queues swapped in shared
// memory.
// Expected: level[v] = hops from vertex 0, or -1.
// warpsmith: --arch sm_80 --kernel bfs --grid 1 --block 64 --shared 0
// warpsmith: --arg edge=i32[200,4]=randint(230,0,200) --arg level=inout,i32[200]=const(-1)

extern "C" __global__ void bfs(const int* edge, int* level)
{
    __shared__ int queue[2][200];
    __shared__ int size[2];
    const int t = threadIdx.x;
    if (t == 0) {
        level[0] = 0;
        queue[0][0] = 0;
        size[0] = 1;
        size[1] = 0;
    }
    __syncthreads();
    for (int depth = 1, now = 0; size[now] > 0; ++depth, now ^= 1) {
        for (int i = t; i < size[now]; i += blockDim.x) {
            const int v = queue[now][i];
            for (int k = 0; k < 4; ++k) {
                const int to = edge[v * 4 + k];
                if (atomicCAS(&level[to], -1, depth) == -1)
                    queue[now ^ 1][atomicAdd(&size[now ^ 1], 1)] = to;
            }
        }
        __syncthreads();
        if (t == 0)
            size[now] = 0;
        __syncthreads();
    }
}
