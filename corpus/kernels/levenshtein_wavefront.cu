// Edit distance by anti-diagonals: one thread per row, three rotating diagonals in shared memory, 2-byte cells.
// Expected: distance[p] = the Levenshtein distance of the p-th pair of 30- and 24-letter words.
// warpsmith: --arch sm_80 --kernel levenshtein --grid 3 --block 32 --shared 0
// warpsmith: --arg a=u8[3,30]=randint(231,97,101) --arg b=u8[3,24]=randint(232,97,101) --arg distance=out,i32[3]

extern "C" __global__ void levenshtein(const unsigned char* a, const unsigned char* b, int* distance)
{
    constexpr int N = 30, M = 24;
    __shared__ unsigned short diag[3][32];
    const int i = threadIdx.x; // row; rows 0..N are used
    for (int d = 0; d <= N + M; ++d) {
        unsigned short* now = diag[d % 3];
        const unsigned short* one = diag[(d + 2) % 3];
        const unsigned short* two = diag[(d + 1) % 3];
        const int j = d - i;
        if (i <= N && j >= 0 && j <= M) {
            int best;
            if (i == 0 || j == 0) {
                best = i + j;
            } else {
                const int swap = two[i - 1] + (a[blockIdx.x * N + i - 1] != b[blockIdx.x * M + j - 1]);
                best = min(min(one[i - 1], one[i]) + 1, swap);
            }
            now[i] = (unsigned short)best;
            if (i == N && j == M)
                distance[blockIdx.x] = best;
        }
        __syncwarp();
    }
}
