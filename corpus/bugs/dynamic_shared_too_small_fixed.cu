// Two dynamic arrays are placed one after the other, and the launch requests the bytes of both.
// warpsmith: --arch sm_80 --kernel pairs --grid 2 --block 64 --shared 512
// warpsmith: --arg x=f32[128]=normal(3) --arg id=i32[128]=iota --arg keys=out,f32[128] --arg ids=out,i32[128]

extern "C" __global__ void pairs(const float* x, const int* id, float* keys, int* ids)
{
    extern __shared__ float key[];
    int* index = reinterpret_cast<int*>(key + blockDim.x);
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    key[t] = x[i];
    index[t] = id[i];
    __syncthreads();
    // One odd-even exchange step, then the output.
    const int mate = t ^ 1;
    const bool keep = (key[t] <= key[mate]) == (t < mate);
    keys[i] = keep ? key[t] : key[mate];
    ids[i] = keep ? index[t] : index[mate];
}
