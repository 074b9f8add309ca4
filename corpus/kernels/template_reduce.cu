// One templated reduction instantiated for four operators and types, chosen per block.
// Expected: i_out = {sum, max} of ints, d_out = {sum, product of (1 + x/64)} of doubles, over 160 elements.
// warpsmith: --arch sm_80 --kernel dispatch --grid 4 --block 64 --shared 0
// warpsmith: --arg i_in=i32[160]=randint(185,-40,40) --arg d_in=f64[160]=normal(186) --arg i_out=out,i32[2]
// warpsmith: --arg d_out=out,f64[2]

struct Sum {
    template <typename T>
    __device__ static T apply(T a, T b) { return a + b; }
};
struct Max {
    template <typename T>
    __device__ static T apply(T a, T b) { return a > b ? a : b; }
};
struct Product {
    template <typename T>
    __device__ static T apply(T a, T b) { return a * b; }
};

struct Same {
    template <typename T>
    __device__ T operator()(T v) const { return v; }
};
struct Growth {
    __device__ double operator()(double v) const { return 1.0 + v / 64.0; }
};

template <typename Op, int THREADS, typename T, typename Map>
__device__ T reduce(const T* in, int n, T identity, Map map)
{
    __shared__ T s[THREADS];
    const int t = threadIdx.x;
    T v = identity;
    for (int i = t; i < n; i += THREADS)
        v = Op::apply(v, map(in[i]));
    s[t] = v;
    __syncthreads();
#pragma unroll
    for (int stride = THREADS / 2; stride > 0; stride >>= 1) {
        if (t < stride)
            s[t] = Op::apply(s[t], s[t + stride]);
        __syncthreads();
    }
    return s[0];
}

extern "C" __global__ void dispatch(const int* i_in, const double* d_in, int* i_out, double* d_out)
{
    if (blockIdx.x < 2) {
        const int v = blockIdx.x == 0 ? reduce<Sum, 64>(i_in, 160, 0, Same())
                                      : reduce<Max, 64>(i_in, 160, -2147483647 - 1, Same());
        if (threadIdx.x == 0)
            i_out[blockIdx.x] = v;
    } else {
        const double v = blockIdx.x == 2 ? reduce<Sum, 64>(d_in, 160, 0.0, Same())
                                         : reduce<Product, 64>(d_in, 160, 1.0, Growth());
        if (threadIdx.x == 0)
            d_out[blockIdx.x - 2] = v;
    }
}
