// Many atomic operations: float maximum by CAS, min/max, and/or/xor, inc/dec, exch, 64-bit, double and half2 additions.
// Expected: the order-independent result of each.
// warpsmith: --arch sm_80 --kernel atomics --grid 3 --block 64 --shared 0
// warpsmith: --arg x=f32[192]=normal(178) --arg k=u32[192]=randint(179,0,4294967296)
// warpsmith: --arg fmax_out=inout,f32[1]=const(-100) --arg ints=inout,i32[2]=zeros
// warpsmith: --arg bits=inout,u32[5]=const(4294967295)
// warpsmith: --arg wide=inout,u64[2]=zeros --arg dsum=inout,f64[1]=zeros --arg hsum=inout,f16[2]=zeros

#include <cuda_fp16.h>

__device__ float atomic_max_float(float* at, float v)
{
    int* bits = reinterpret_cast<int*>(at);
    int old = *reinterpret_cast<volatile int*>(bits);
    while (__int_as_float(old) < v) {
        const int seen = atomicCAS(bits, old, __float_as_int(v));
        if (seen == old)
            break;
        old = seen;
    }
    return __int_as_float(old);
}

extern "C" __global__ void atomics(const float* x, const unsigned* k, float* fmax_out, int* ints, unsigned* bits,
                                   unsigned long long* wide, double* dsum, __half2* hsum)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomic_max_float(fmax_out, x[i]);
    atomicMin(&ints[0], (int)k[i]);
    atomicSub(&ints[1], (int)(k[i] & 15));
    atomicAnd(&bits[0], k[i] | 0xffff0000u);
    atomicXor(&bits[1], k[i]);
    atomicInc(&bits[2], 99u);
    atomicDec(&bits[3], 200u);
    atomicMax(&bits[4], k[i]);
    atomicAdd(&wide[0], (unsigned long long)k[i] << 8);
    atomicOr(&wide[1], 1ull << (k[i] & 63));
    atomicAdd(dsum, (double)x[i]);
    atomicAdd(hsum, __floats2half2_rn(1.0f, i & 1 ? 0.5f : 0.25f));
}
