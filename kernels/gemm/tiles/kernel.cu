// C = A B^T with an epilogue by mma.sync: a block computes a tile of C, with all sums in registers.
//
// common/product.cuh multiplies; this file finds the block's tile, applies the epilogue to the sums and stores them.

#include "generated.cuh"

#include "common/elements.cuh"
#include "common/epilogue.cuh"
#include "common/product.cuh"

namespace tensor_cores {

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

}  // namespace tensor_cores

extern "C" __global__ void __launch_bounds__(tensor_cores::Tile::THREADS, knob::RESIDENT)
gemm_tiles(const tensor_cores::Element* a, const tensor_cores::Element* b, const tensor_cores::Output* bias,
         tensor_cores::Output* c, int m, int n, int k) {
    using namespace tensor_cores;
    extern __shared__ __align__(128) unsigned char shared[];
    const int2 tile = tile_of<knob::BLOCK_M, knob::BLOCK_N, knob::GROUP>(blockIdx.x, m, n);
    const int first_m = tile.x * knob::BLOCK_M, first_n = tile.y * knob::BLOCK_N;
    const int row_bytes = k * static_cast<int>(sizeof(Element));

    Tile product;
    product.run(ptx::shared_address(shared + smem::stages::offset), reinterpret_cast<const char*>(a),
                reinterpret_cast<const char*>(b), m, n, row_bytes, first_m, first_n, 0, row_bytes);

    const bool pairs = n % 2 == 0;  // a pair of columns then starts at a multiple of 4 bytes
    product.each_pair([&](int row, int column, float first, float second) {
        const int y = first_m + row, x = first_n + column;
        if (y >= m || x >= n) return;
        Output* to = c + static_cast<long long>(y) * n + x;
        first = finish<BIAS, GELU>(first, bias, x);
        if (pairs) {
            *reinterpret_cast<unsigned*>(to) = pair_of(Output(), first, finish<BIAS, GELU>(second, bias, x + 1));
        } else {
            from_float(to[0], first);
            if (x + 1 < n) from_float(to[1], finish<BIAS, GELU>(second, bias, x + 1));
        }
    });
}
