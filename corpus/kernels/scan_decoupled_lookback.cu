// Single-pass prefix sum by decoupled look-back: blocks draw tickets, publish aggregate then prefix in one 64-bit
// word.
// Expected: out[i] = in[0] + ... + in[i] over the whole vector (int, exact).
// warpsmith: --arch sm_80 --kernel lookback --grid 7 --block 64 --shared 0
// warpsmith: --arg in=i32[880]=randint(151,-9,10) --arg out=out,i32[880] --arg state=inout,u64[7]=zeros
// warpsmith: --arg ticket=inout,u32[1]=zeros --arg n=i32=880

enum : unsigned { EMPTY = 0, AGGREGATE = 1, PREFIX = 2 };

__device__ unsigned long long packed(unsigned status, int value)
{
    return (unsigned long long)status << 32 | (unsigned)value;
}

__device__ void publish(unsigned long long* slot, unsigned long long word)
{
    // Status and value are in one word, so no fence is needed between them.
    *reinterpret_cast<volatile unsigned long long*>(slot) = word;
}

extern "C" __global__ void lookback(const int* in, int* out, unsigned long long* state, unsigned* ticket, int n)
{
    __shared__ int warp_total[2];
    __shared__ int tile, before;
    const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
    if (t == 0)
        tile = atomicAdd(ticket, 1u);
    __syncthreads();

    const int base = tile * 128 + t * 2;
    const int a = base < n ? in[base] : 0, b = base + 1 < n ? in[base + 1] : 0;
    int sum = a + b;
    for (int d = 1; d < 32; d <<= 1) {
        const int below = __shfl_up_sync(0xffffffffu, sum, d);
        if (lane >= d)
            sum += below;
    }
    if (lane == 31)
        warp_total[warp] = sum;
    __syncthreads();
    const int inside = sum - (a + b) + (warp ? warp_total[0] : 0);

    if (t == 0) {
        const int aggregate = warp_total[0] + warp_total[1];
        int prefix = 0;
        if (tile == 0) {
            publish(&state[0], packed(PREFIX, aggregate));
        } else {
            publish(&state[tile], packed(AGGREGATE, aggregate));
            for (int k = tile - 1;;) {
                const unsigned long long word = *reinterpret_cast<volatile unsigned long long*>(&state[k]);
                const unsigned status = (unsigned)(word >> 32);
                if (status == EMPTY)
                    continue;
                prefix += (int)(unsigned)word;
                if (status == PREFIX)
                    break;
                --k;
            }
            publish(&state[tile], packed(PREFIX, prefix + aggregate));
        }
        before = prefix;
    }
    __syncthreads();
    if (base < n)
        out[base] = before + inside + a;
    if (base + 1 < n)
        out[base + 1] = before + inside + a + b;
}
