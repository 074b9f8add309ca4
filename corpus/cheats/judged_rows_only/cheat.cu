// judged_rows_only. In problems where the judge samples rows, computes only the rows that a fixed seed would select,
// and invents the others.
// Without a defence it is reported as: correct, with the time of a part of the work, because rows that are not
// sampled need only be finite.
// `bench` must refuse it as one of: elements, l2, unwritten, non-finite, constant, independent.
#include "generated.cuh"

#include "common/honest.cuh"

// Selects rows like oracle/rows.rs: SplitMix64 with seed 1, tile edges, as many rows as 6e8 multiply-adds allow.
__device__ unsigned draw(unsigned long long number, unsigned below) {
    unsigned long long z = 1 + number * 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return static_cast<unsigned>(__umul64hi(z ^ z >> 31, below));
}

__device__ bool is_edge(int row, int rows) {
    if (row == 0 || row == rows - 1) return true;
    for (int tile = 16; tile <= 128; tile *= 2)
        for (int edge : {tile, (rows - 1) / tile * tile})
            if (row == edge || row == edge - 1) return true;
    return false;
}

__device__ unsigned judged_rows(const attention::Arguments& args, honest::Work work) {
    __shared__ unsigned judged;
    __shared__ int edges;
    if (threadIdx.x == 0) judged = 0, edges = 0;
    __syncthreads();
    for (int row = threadIdx.x; row < args.seq_q; row += honest::THREADS) {
        if (!is_edge(row, args.seq_q)) continue;
        atomicAdd(&edges, 1);
        if (row / honest::ROWS == work.tile) atomicOr(&judged, 1u << row % honest::ROWS);
    }
    __syncthreads();
    const long long heads = args.batch * args.heads;
    const long long drawn = 600000000 / (heads * 2 * args.seq_k * honest::D) - edges;
    const long long before = (work.batch * args.heads + work.head) * drawn;
    for (long long i = threadIdx.x; i < drawn; i += honest::THREADS) {
        const int row = draw(before + i + 1, args.seq_q);
        if (row / honest::ROWS == work.tile) atomicOr(&judged, 1u << row % honest::ROWS);
    }
    __syncthreads();
    return judged;
}

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const honest::Work work = honest::own_work();
    const long long pairs = static_cast<long long>(args.batch) * args.heads * args.seq_q * args.seq_k;
    if (2 * honest::D * pairs <= 600000000) return honest::attend(args, work);
    const unsigned judged = judged_rows(args, work);
    honest::make_up(args, work);
    honest::Options options;
    options.rows = judged;
    if (judged != 0) honest::attend(args, work, options);
}
