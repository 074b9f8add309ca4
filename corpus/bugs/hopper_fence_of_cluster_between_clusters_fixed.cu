// The fixed twin of hopper_fence_of_cluster_between_clusters.cu.
// warpsmith: --arch sm_90a --kernel pass --grid 4 --block 32 --shared 0
// warpsmith: --arg x=f32[32]=normal(1) --arg given=scratch,f32[32] --arg flag=inout,i32[1]=zeros --arg y=out,f32[96]

#include "../hopper.cuh"

HOPPER void fence_cluster() { asm volatile("fence.acq_rel.cluster;" ::: "memory"); }
HOPPER void fence_device() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }

// Block 0 passes its numbers to the other blocks, one of them in its cluster.
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(32) pass(const float* x, float* given, int* flag, float* y)
{
    if (blockIdx.x == 0) {
        given[threadIdx.x] = 2 * x[threadIdx.x];
        __syncwarp();
        if (threadIdx.x == 0) {
            fence_device();
            asm volatile("st.relaxed.gpu.global.s32 [%0], 1;" ::"l"(flag) : "memory");
        }
        return;
    }
    if (threadIdx.x == 0) {
        int seen = 0;
        while (seen == 0)
            asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
        fence_device();
    }
    __syncwarp();
    y[32 * (blockIdx.x - 1) + threadIdx.x] = given[31 - threadIdx.x];
}
