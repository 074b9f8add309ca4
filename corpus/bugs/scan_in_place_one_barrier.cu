// Hillis-Steele scan in one shared array with one barrier per step: the reads of a step race with its writes.
// warpsmith: --arch sm_80 --kernel scan --grid 2 --block 128 --shared 0
// warpsmith: --arg in=i32[256]=randint(3,0,10) --arg out=out,i32[256]

extern "C" __global__ void scan(const int* in, int* out)
{
    __shared__ int s[128];
    const int t = threadIdx.x, i = blockIdx.x * 128 + t;
    s[t] = in[i];
    __syncthreads();
    for (int d = 1; d < 128; d <<= 1) {
        const int below = t >= d ? s[t - d] : 0; //~ race
        s[t] += below; //~| race
        __syncthreads();
    }
    out[i] = s[t];
}
