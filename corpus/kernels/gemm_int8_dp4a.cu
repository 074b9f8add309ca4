// int8 product with __dp4a on packed words, per-row scale, requantised to int8 with saturation.
// Expected: q = clamp(round_even((A B^T) * scale[row]), -128, 127), the int32 product exact.
// warpsmith: --arch sm_80 --kernel igemm --grid 2 --block 16,8 --shared 0
// warpsmith: --arg A=i8[16,64]=randint(86,-128,128) --arg Bt=i8[16,64]=randint(87,-128,128)
// warpsmith: --arg scale=f32[16]=const(0.0004)
// warpsmith: --arg raw=out,i32[16,16] --arg q=out,i8[16,16]

extern "C" __global__ void igemm(const int* A, const int* Bt, const float* scale, int* raw, signed char* q)
{
    const int row = blockIdx.x * 8 + threadIdx.y, col = threadIdx.x;
    int acc = 0;
#pragma unroll 4
    for (int k = 0; k < 16; ++k)
        acc = __dp4a(A[row * 16 + k], Bt[col * 16 + k], acc);
    raw[row * 16 + col] = acc;
    const int v = __float2int_rn(acc * scale[row]);
    q[row * 16 + col] = (signed char)max(-128, min(127, v));
}
