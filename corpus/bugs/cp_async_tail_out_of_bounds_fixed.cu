// The last tile's copies beyond the end have a source size of zero, so they read nothing and fill with zeros.
// warpsmith: --arch sm_80 --kernel squares --grid 1 --block 64 --shared 0
// warpsmith: --arg in=f32[600]=normal(3) --arg out=out,f32[3] --arg n=i32=600

extern "C" __global__ void squares(const float* in, float* out, int n)
{
    __shared__ __align__(16) float tile[256];
    __shared__ float partial[2];
    const int t = threadIdx.x;
    for (int base = 0, k = 0; base < n; base += 256, ++k) {
        const unsigned dst = static_cast<unsigned>(__cvta_generic_to_shared(&tile[t * 4]));
        const float* src = in + base + t * 4;
        const int bytes = base + t * 4 < n ? 16 : 0;
        asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(dst), "l"(bytes ? src : in), "r"(bytes));
        asm volatile("cp.async.commit_group;");
        asm volatile("cp.async.wait_group 0;" ::: "memory");
        __syncthreads();
        float sum = 0.0f;
        for (int i = t; i < 256; i += 64)
            sum += base + i < n ? tile[i] * tile[i] : 0.0f;
        for (int o = 16; o > 0; o >>= 1)
            sum += __shfl_xor_sync(0xffffffffu, sum, o);
        if (t % 32 == 0)
            partial[t / 32] = sum;
        __syncthreads();
        if (t == 0)
            out[k] = partial[0] + partial[1];
        __syncthreads();
    }
}
