// Loss of a row of logits and its gradient, with reductions passed as lambdas.
// Expected: loss = log(sum(exp(row))) - row[target], grad = softmax(row) - onehot(target).
// warpsmith: --arch sm_80 --kernel cross_entropy --grid 3 --block 256 --shared 0
// warpsmith: --arg logits=f32[3,777]=normal(46) --arg target=i64[3]=randint(47,0,777) --arg loss=out,f32[3]
// warpsmith: --arg grad=out,f32[3,777] --arg classes=i32=777

template <class Join>
__device__ float over_block(float v, Join join, float* warps)
{
    for (int offset = 16; offset; offset >>= 1)
        v = join(v, __shfl_xor_sync(0xffffffffu, v, offset));
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = v;
    __syncthreads();
    v = warps[threadIdx.x % 8];
    for (int offset = 4; offset; offset >>= 1)
        v = join(v, __shfl_xor_sync(0xffffffffu, v, offset));
    __syncthreads();
    return v;
}

extern "C" __global__ void cross_entropy(
    const float* logits, const long long* target, float* loss, float* grad, int classes)
{
    __shared__ float warps[8];
    const float* row = logits + static_cast<size_t>(blockIdx.x) * classes;
    float* slope = grad + static_cast<size_t>(blockIdx.x) * classes;
    float top = -3.4e38f;
    for (int i = threadIdx.x; i < classes; i += blockDim.x)
        top = fmaxf(top, row[i]);
    top = over_block(top, [](float a, float b) { return fmaxf(a, b); }, warps);
    float sum = 0.0f;
    for (int i = threadIdx.x; i < classes; i += blockDim.x)
        sum += expf(row[i] - top);
    sum = over_block(sum, [](float a, float b) { return a + b; }, warps);
    const int wanted = static_cast<int>(target[blockIdx.x]);
    for (int i = threadIdx.x; i < classes; i += blockDim.x)
        slope[i] = expf(row[i] - top) / sum - (i == wanted ? 1.0f : 0.0f);
    if (threadIdx.x == 0)
        loss[blockIdx.x] = logf(sum) + top - row[wanted];
}
