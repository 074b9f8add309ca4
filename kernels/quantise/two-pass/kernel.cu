// E4M3 codes with a scale per head, in two launches over parts of heads.
//
//   quantise_absmax   a block takes a part of a head: the part's largest absolute value          -> workspace
//   quantise_encode   a block takes a part again: the head's scale from all its parts, then the codes
//
// A thread takes VECTORS vectors of eight elements, 16 bytes each, and loads all of them before it uses the first. With
// REVERSE the second launch takes the parts in reverse order: it starts with those that the first launch read last, which
// are still in the L2 cache. A rotation is computed in both launches.

#include "generated.cuh"

#include "common/e4m3.cuh"
#include "common/elements.cuh"
#include "common/rotation.cuh"

namespace two_pass {

using Element = axis::Element<>;

using knob::THREADS;
using knob::VECTORS;
constexpr int WARPS = THREADS / 32;
constexpr int PART = THREADS * VECTORS;  // vectors of a part
constexpr bool STRIDED = knob::PATHOLOGY == knob::Pathology::strided;
constexpr bool EXTRA_BARRIERS = knob::PATHOLOGY == knob::Pathology::barriers;
static_assert(smem::maxima::dim0 == WARPS, "a maximum per warp");

// The part of a block: blocks count the parts of the first head, then those of the second, ...
struct Part {
    int index, parts;  // of its head
    long long head;
    int vectors;       // of a head

    // REVERSED: the last block has the first part.
    __device__ Part(int seq, int head_dim, bool reversed) {
        vectors = seq * head_dim / 8;
        parts = (vectors + PART - 1) / PART;
        const unsigned part = reversed ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
        index = part % parts;
        head = part / parts;
    }

    // The thread's i-th vector in its head. STRIDED: neighbouring lanes are VECTORS vectors apart.
    __device__ int vector(int i) const {
        return index * PART + (STRIDED ? threadIdx.x * VECTORS + i : threadIdx.x + i * THREADS);
    }
    __device__ bool has(int i) const { return vector(i) < vectors; }
    __device__ long long place(int i) const { return head * vectors + vector(i); }

    // Vectors past the head's end are zeros: they change no maximum.
    __device__ void load(Eight<Element> (&loaded)[VECTORS], const Element* x) const {
#pragma unroll
        for (int i = 0; i < VECTORS; ++i) {
            loaded[i] = {};
            if (has(i)) loaded[i] = reinterpret_cast<const Eight<Element>*>(x)[place(i)];
            if constexpr (EXTRA_BARRIERS) __syncthreads();
        }
    }
};

}  // namespace two_pass

extern "C" __global__ void __launch_bounds__(two_pass::THREADS)
quantise_absmax(const two_pass::Element* x, float* partials, int seq, int head_dim) {
    using namespace two_pass;
    extern __shared__ __align__(16) unsigned char shared[];
    float* maxima = reinterpret_cast<float*>(shared + smem::maxima::offset);  // [WARPS]
    const Part part(seq, head_dim, false);
    Eight<Element> loaded[VECTORS];
    part.load(loaded, x);
    const float own = rotation::absmax<axis::rotate>(loaded, [&](int i) { return part.vector(i); }, head_dim);
    const float absmax = block_max<WARPS>(maxima, own);
    if (threadIdx.x == 0) partials[part.head * part.parts + part.index] = absmax;
}

extern "C" __global__ void __launch_bounds__(two_pass::THREADS)
quantise_encode(const two_pass::Element* x, const float* partials, e4m3::Code* codes, float* scales, int seq,
                int head_dim) {
    using namespace two_pass;
    extern __shared__ __align__(16) unsigned char shared[];
    float* maxima = reinterpret_cast<float*>(shared + smem::maxima::offset);  // [WARPS]
    const Part part(seq, head_dim, knob::REVERSE);
    Eight<Element> loaded[VECTORS];
    part.load(loaded, x);
    float absmax = 0.0f;
    for (int i = threadIdx.x; i < part.parts; i += THREADS)
        absmax = fmaxf(absmax, partials[part.head * part.parts + i]);
    const e4m3::Scale scale(block_max<WARPS>(maxima, absmax));
    if (part.index == 0 && threadIdx.x == 0) scales[part.head] = scale.scale;
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
        const auto vector = rotation::applied<axis::rotate>(loaded[i], part.vector(i), head_dim);
        if (part.has(i)) reinterpret_cast<uint2*>(codes)[part.place(i)] = vector.codes(scale);
    }
}
