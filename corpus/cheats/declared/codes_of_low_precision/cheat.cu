// codes_of_low_precision. Computes codes of 8 bits with a scale in bf16, so that some numbers get the code beside theirs.
// warpsmith: reference = "reference.py:codes"
// warpsmith: sizes = { rows = 20, cols = 300 }
// warpsmith: independent = "rows"
// warpsmith: launch = { grid = ["rows"], block = [32] }
// warpsmith: [arguments]
// warpsmith: x = "in fp32[rows, cols]"
// warpsmith: y = "out i8[rows, cols]"
// warpsmith: cols = "size"

extern "C" __global__ void codes(const float* x, signed char* y, int cols)
{
    const float* row = x + (long)blockIdx.x * cols;
    float most = 0.0f;
    for (int i = threadIdx.x; i < cols; i += 32) most = fmaxf(most, fabsf(row[i]));
    for (int step = 16; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
    const float factor = most > 0.0f ? __uint_as_float((__float_as_uint(127.0f / most) + 0x8000u) & 0xffff0000u) : 0.0f;
    for (int i = threadIdx.x; i < cols; i += 32) y[(long)blockIdx.x * cols + i] = (signed char)rintf(row[i] * factor);
}
