// Sieve: threads mark multiples in strided loops. Many threads store the same constant to one byte, in different
// iterations: a note, not a finding.
// Expected: composite[k] = 1 for composite k, 0 for primes.
// warpsmith: --arch sm_80 --kernel sieve --grid 2 --block 32 --shared 0
// warpsmith: --arg composite=inout,u8[400]=zeros

extern "C" __global__ void sieve(unsigned char* composite)
{
    const int factor = 2 + blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = factor * 2; k < 400; k += factor)
        composite[k] = 1;
}
