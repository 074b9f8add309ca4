// Every built-in index of a 3-D launch, folded into one number per thread, and a per-block count of threads.
// Expected: id[g] = z*10000 + y*100 + x of the global thread (mixed radix over the launch); count[block] = 24.
// warpsmith: --arch sm_80 --kernel indices --grid 2,3,2 --block 4,3,2 --shared 0
// warpsmith: --arg id=out,i32[4,9,8] --arg count=inout,i32[2,3,2]=zeros

extern "C" __global__ void indices(int* id, int* count)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    const int z = blockIdx.z * blockDim.z + threadIdx.z;
    const int width = gridDim.x * blockDim.x, height = gridDim.y * blockDim.y;
    id[(z * height + y) * width + x] = z * 10000 + y * 100 + x;
    atomicAdd(&count[(blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x], 1);
}
