// A chain of blocks passes a running value, and a payload written before it, with st.release and ld.acquire.
// Expected: out[b] = sum over blocks 0..b of (sum of that block's 32 payload words), payload = 3 x.
// warpsmith: --arch sm_80 --kernel chain --grid 5 --block 32 --shared 0
// warpsmith: --arg x=i32[160]=randint(163,0,100) --arg payload=scratch,i32[160] --arg flag=inout,u32[5]=zeros
// warpsmith: --arg out=out,i32[5]

__device__ __forceinline__ unsigned load_acquire(const unsigned* p)
{
    unsigned v;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}

extern "C" __global__ void chain(const int* x, int* payload, unsigned* flag, int* out)
{
    const int b = blockIdx.x, lane = threadIdx.x;
    payload[b * 32 + lane] = 3 * x[b * 32 + lane];
    int before = 0;
    if (b > 0) {
        while (load_acquire(&flag[b - 1]) == 0)
            __nanosleep(32);
        // All previous blocks have released their payloads by now.
        for (int k = 0; k < b; ++k)
            before += payload[k * 32 + lane];
    }
    int sum = before + payload[b * 32 + lane];
    for (int o = 16; o > 0; o >>= 1)
        sum += __shfl_xor_sync(0xffffffffu, sum, o);
    __syncwarp();
    if (lane == 0) {
        out[b] = sum;
        asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(&flag[b]), "r"(1u) : "memory");
    }
}
