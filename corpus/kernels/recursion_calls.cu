// Function calls: a recursive function with a growing stack, mutual recursion, and a call through a function pointer
// table.
// Expected: gcd, binomial(n, k) by recursion, parity by mutual recursion, and op[i mod 4](x, y).
// warpsmith: --arch sm_80 --kernel calls --grid 1 --block 64 --shared 0
// warpsmith: --arg x=i32[64]=randint(171,1,500) --arg y=i32[64]=randint(172,1,500) --arg out=out,i32[64,4]

__device__ __noinline__ int gcd(int a, int b) { return b == 0 ? a : gcd(b, a % b); }

__device__ __noinline__ int binomial(int n, int k)
{
    if (k == 0 || k == n)
        return 1;
    return binomial(n - 1, k - 1) + binomial(n - 1, k);
}

__device__ bool is_odd(int n);
__device__ __noinline__ bool is_even(int n) { return n == 0 ? true : is_odd(n - 1); }
__device__ __noinline__ bool is_odd(int n) { return n == 0 ? false : is_even(n - 1); }

__device__ __noinline__ int add(int a, int b) { return a + b; }
__device__ __noinline__ int sub(int a, int b) { return a - b; }
__device__ __noinline__ int mul(int a, int b) { return a * b; }
__device__ __noinline__ int divide(int a, int b) { return a / b; }

using Op = int (*)(int, int);
__device__ const Op ops[4] = {add, sub, mul, divide};

extern "C" __global__ void calls(const int* x, const int* y, int* out)
{
    const int i = threadIdx.x, a = x[i], b = y[i];
    out[i * 4] = gcd(a, b);
    out[i * 4 + 1] = binomial(a % 9, b % (a % 9 + 1));
    out[i * 4 + 2] = is_even(a % 37);
    out[i * 4 + 3] = ops[i & 3](a, b);
}
