// 16-byte copy with cache hints and prefetch: __ldcs, __stcg, prefetch.global.L2, and a scalar tail.
// Expected: dst = src.
// warpsmith: --arch sm_80 --kernel copy --grid 2 --block 64 --shared 0
// warpsmith: --arg src=u32[1003]=randint(207,0,4294967296) --arg dst=out,u32[1003] --arg n=i32=1003

extern "C" __global__ void copy(const unsigned* src, unsigned* dst, int n)
{
    const int stride = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n / 4; i += stride) {
        const uint4* at = reinterpret_cast<const uint4*>(src) + i;
        if (i + stride < n / 4)
            asm volatile("prefetch.global.L2 [%0];" ::"l"(at + stride));
        __stcg(reinterpret_cast<uint4*>(dst) + i, __ldcs(at));
    }
    const int tail = (n & ~3) + blockIdx.x * blockDim.x + threadIdx.x;
    if (tail < n)
        __stwt(dst + tail, __ldcg(src + tail));
}
