// 64-bit integers: modular power with 128-bit products, division and remainder, shifts by run-time amounts, high
// products.
// Expected: exact.
// warpsmith: --arch sm_80 --kernel int64 --grid 1 --block 64 --shared 0
// warpsmith: --arg a=u64[64]=randint(181,1,9000000000000000000) --arg b=u64[64]=randint(182,1,1000000000000)
// warpsmith: --arg out=out,u64[64,6]

__device__ unsigned long long mul_mod(unsigned long long a, unsigned long long b, unsigned long long m)
{
    unsigned long long r = 0;
    a %= m;
    while (b) {
        if (b & 1)
            r = r >= m - a ? r - (m - a) : r + a;
        a = a >= m - a ? a - (m - a) : a + a;
        b >>= 1;
    }
    return r;
}

extern "C" __global__ void int64(const unsigned long long* a, const unsigned long long* b, unsigned long long* out)
{
    const int i = threadIdx.x;
    const unsigned long long x = a[i], y = b[i], prime = 1000000000000000003ull;
    unsigned long long power = 1, base = x % prime;
    for (unsigned e = (unsigned)(y & 1023); e; e >>= 1) {
        if (e & 1)
            power = mul_mod(power, base, prime);
        base = mul_mod(base, base, prime);
    }
    unsigned long long* o = out + i * 6;
    o[0] = power;
    o[1] = x / y;
    o[2] = x % y;
    o[3] = __umul64hi(x, y * 0x9E3779B97F4A7C15ull);
    o[4] = (unsigned long long)((long long)(x - y * 9000000ull) / -12345ll);
    o[5] = x << (y & 63) | x >> (63 - (y & 63)) ^ (unsigned long long)__clzll(y) ^ __brevll(x);
}
