// C = A B^T with an epilogue in two launches, for few tiles and many columns: the columns of A and B are split.
//
//   gemm_partial   a block multiplies one of SPLIT ranges of columns for a tile of C           -> fp32 sums in the workspace
//   gemm_combine   a thread adds the SPLIT sums of four elements in order and applies the epilogue
//
// The workspace is [SPLIT][m][n]. The order of the sums is fixed: equal inputs give equal bits.

#include "generated.cuh"

#include "common/elements.cuh"
#include "common/epilogue.cuh"
#include "common/product.cuh"

namespace split_k {

using Element = axis::Element<e4m3::Code>;
using Output = OutputOf<Element>::Type;
constexpr bool BIAS = axis::epilogue != axis::Epilogue::none;
constexpr bool GELU = axis::epilogue == axis::Epilogue::bias_gelu;

constexpr Placement PLACEMENT = knob::LAYOUT == knob::Layout::swizzled ? Placement::swizzled
                                : knob::LAYOUT == knob::Layout::padded ? Placement::padded
                                                                       : Placement::plain;
using Tile = Product<Element, knob::BLOCK_M, knob::BLOCK_N, knob::BLOCK_K, knob::WARPS_M, knob::WARPS_N, knob::STAGES,
                     PLACEMENT, knob::PATHOLOGY == knob::Pathology::barriers>;
static_assert(smem::stages::bytes == knob::STAGES * Tile::STAGE_BYTES, "as the manifest lays it out");

constexpr int COMBINE_THREADS = 256;

}  // namespace split_k

extern "C" __global__ void __launch_bounds__(split_k::Tile::THREADS, knob::RESIDENT)
gemm_partial(const split_k::Element* a, const split_k::Element* b, float* workspace, int m, int n, int k) {
    using namespace split_k;
    extern __shared__ __align__(128) unsigned char shared[];
    const int range = blockIdx.x % knob::SPLIT;
    const int2 tile = tile_of<knob::BLOCK_M, knob::BLOCK_N, knob::GROUP>(blockIdx.x / knob::SPLIT, m, n);
    const int first_m = tile.x * knob::BLOCK_M, first_n = tile.y * knob::BLOCK_N;
    const int row_bytes = k * static_cast<int>(sizeof(Element));
    const int steps = (row_bytes + knob::BLOCK_K - 1) / knob::BLOCK_K, share = (steps + knob::SPLIT - 1) / knob::SPLIT;
    const int begin = min(range * share * knob::BLOCK_K, row_bytes), end = min(begin + share * knob::BLOCK_K, row_bytes);

    Tile product;
    product.run(ptx::shared_address(shared + smem::stages::offset), reinterpret_cast<const char*>(a),
                reinterpret_cast<const char*>(b), m, n, row_bytes, first_m, first_n, begin, end);

    float* partial = workspace + static_cast<long long>(range) * m * n;
    const bool pairs = n % 2 == 0;  // a pair of columns then starts at a multiple of 8 bytes
    product.each_pair([&](int row, int column, float first, float second) {
        const int y = first_m + row, x = first_n + column;
        if (y >= m || x >= n) return;
        float* to = partial + static_cast<long long>(y) * n + x;
        if (pairs) {
            *reinterpret_cast<float2*>(to) = make_float2(first, second);
        } else {
            to[0] = first;
            if (x + 1 < n) to[1] = second;
        }
    });
}

extern "C" __global__ void __launch_bounds__(split_k::COMBINE_THREADS)
gemm_combine(const float* workspace, const split_k::Output* bias, split_k::Output* c, int m, int n) {
    using namespace split_k;
    const long long elements = static_cast<long long>(m) * n;
    const long long first = 4 * (static_cast<long long>(blockIdx.x) * COMBINE_THREADS + threadIdx.x);
    if (first >= elements) return;
    float sums[4] = {};
    if (n % 4 == 0) {  // all four are in one row, and every range starts at a multiple of 16 bytes
        float4 parts[knob::SPLIT];
#pragma unroll
        for (int i = 0; i < knob::SPLIT; ++i)
            parts[i] = *reinterpret_cast<const float4*>(workspace + i * elements + first);
#pragma unroll
        for (int i = 0; i < knob::SPLIT; ++i) {
            sums[0] += parts[i].x;
            sums[1] += parts[i].y;
            sums[2] += parts[i].z;
            sums[3] += parts[i].w;
        }
    } else {
        for (int i = 0; i < knob::SPLIT; ++i)
#pragma unroll
            for (int j = 0; j < 4; ++j)
                if (first + j < elements) sums[j] += workspace[i * elements + first + j];
    }
#pragma unroll
    for (int j = 0; j < 4; ++j)
        if (first + j < elements)
            from_float(c[first + j], finish<BIAS, GELU>(sums[j], bias, static_cast<int>((first + j) % n)));
}
