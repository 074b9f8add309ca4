// Double-buffered tile loop; an empty group is committed in the last iteration so that the wait counts correctly.
// warpsmith: --arch sm_80 --kernel stream_max --grid 2 --block 32 --shared 0
// warpsmith: --arg in=f32[2,5,128]=normal(3) --arg out=out,f32[2] --arg tiles=i32=5

__device__ __forceinline__ void copy16(void* dst, const void* src)
{
    const unsigned d = static_cast<unsigned>(__cvta_generic_to_shared(dst));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(d), "l"(src) : "memory");
}

__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int N>
__device__ __forceinline__ void wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

extern "C" __global__ void stream_max(const float* in, float* out, int tiles)
{
    __shared__ __align__(16) float buf[2][128];
    const int lane = threadIdx.x;
    const float* src = in + blockIdx.x * tiles * 128 + lane * 4;

    copy16(&buf[0][lane * 4], src);
    commit();
    float m = -3.0e38f;
    for (int t = 0; t < tiles; ++t) {
        if (t + 1 < tiles) {
            copy16(&buf[(t + 1) & 1][lane * 4], src + (t + 1) * 128);
        }
        commit();
        wait<1>();
        __syncwarp();
        for (int k = 0; k < 4; ++k)
            m = fmaxf(m, buf[t & 1][(lane * 4 + 32 * k + k) & 127]);
        __syncwarp();
    }
    for (int o = 16; o > 0; o >>= 1)
        m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, o));
    if (lane == 0)
        out[blockIdx.x] = m;
}
