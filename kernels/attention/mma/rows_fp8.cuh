// The rows of E4M3 inputs: P is rounded to E4M3, or to fp16 if the tensor cores cannot multiply FP8 by mma.sync.
#pragma once

#include "mma/rows.cuh"

namespace flash {

// fp16 weights times FP8 values of 16 keys, of which a lane's word has keys 2q, 2q+1, 2q+8 and 2q+9.
__device__ void multiply_unpacked(float (&d)[4], const unsigned (&a)[4], unsigned codes) {
    const __half2 low = e4m3::decode2(static_cast<unsigned short>(codes));
    const __half2 high = e4m3::decode2(static_cast<unsigned short>(codes >> 16));
    ptx::mma_16x8x16(d, a, reinterpret_cast<const unsigned&>(low), reinterpret_cast<const unsigned&>(high));
}

template <int KEYS>  // of a step
struct RowsFp8 : RowState {
    // Hopper's tensor cores multiply FP8 by wgmma only: for m16n8k32 the compiler unpacks both factors to fp16. There P
    // is computed in fp16, and only V is unpacked.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    static constexpr bool FP8_WEIGHTS = false;
#else
    static constexpr bool FP8_WEIGHTS = true;
#endif
    // FP8 weights are shifted up so that they use the format's range: the largest is 2^8, of at most 448.
    static constexpr float WEIGHT_SHIFT = FP8_WEIGHTS ? 8.0f : 0.0f;
    // How far, in powers of two, scores may exceed the row's origin before O is rescaled. fp16 has room for 2^15; FP8
    // weights use the whole range already.
    static constexpr float RESCALE_THRESHOLD = FP8_WEIGHTS ? 0.0f : 8.0f;
    // FP8 weights: the products of each step have separate sums, which are added to O in fp32 if there are enough
    // registers, because the sums of the FP8 tensor cores keep only about 13 bits.
    static constexpr bool SUMS_APART = FP8_WEIGHTS && HEAD_DIM <= 128;
    static constexpr int STEP_KEYS = FP8_WEIGHTS ? 32 : 16;  // of one tensor-core step of P V
    static constexpr int KEY_STEPS = KEYS / STEP_KEYS;
    static_assert(KEYS % 32 == 0, "FP8 multiplies 32 keys at a time");

    // FP8 weights: for 16 of every 64 keys, the residuals (rounding errors) of the weights are multiplied by V, too. Without
    // residuals the relative L2 error would be up to 0.0265; sqrt(3/4) of that is below 0.024.
    __device__ static constexpr bool has_residuals(int step) { return FP8_WEIGHTS && step % 2 == 0; }  // its first 16
    // P of one step, as left factors. FP8 weights: followed by the residuals, words 0 and 1.
    using Weights = unsigned[KEY_STEPS + (FP8_WEIGHTS ? (KEY_STEPS + 1) / 2 : 0)][STRIPS][4];
    __device__ static constexpr int residuals_of(int step) { return KEY_STEPS + step / 2; }

    float correction[STRIPS][2];  // SUMS_APART: factor of the output when the next products are added

    __device__ explicit RowsFp8(float scale_) : RowState(scale_) { correction_is_one(); }

    __device__ void correction_is_one() {
#pragma unroll
        for (int i = 0; i < STRIPS * 2; ++i) correction[i / 2][i % 2] = 1.0f;
    }

    // Raises a row's origin if the scores exceed it too far. This is rare once a row has seen some keys, so the lanes of
    // a row exchange their maxima only if some lane of the warp needs it.
    __device__ void raise_origin(const Scores& s, bool first_step) {
        float largest[STRIPS][2];
        if (!outgrown(largest, s, WEIGHT_SHIFT, RESCALE_THRESHOLD)) {
            if constexpr (SUMS_APART) correction_is_one();
            return;
        }
        raise(largest, correction);
        if (!SUMS_APART && !first_step) rescale_output(correction);
    }

    __device__ float2 weigh_pair(const Scores& s, int strip, int block, int half) {
        const float2 w = weights(s, strip, block, half);
        sum[strip][half] += w.x + w.y;
        return w;
    }

    // The n-th of a step's STRIPS * 4 words of P. FP8: two pairs of weights, of keys 2q, 2q+1 and 2q+8, 2q+9.
    __device__ void weigh(Weights& p, const Scores& s, int step, int n) {
        const int strip = n / 4, word = n % 4, half = word % 2;
        const int block = step * (STEP_KEYS / 8) + word / 2 * (STEP_KEYS / 16);
        const float2 w = weigh_pair(s, strip, block, half);
        if constexpr (FP8_WEIGHTS) {
            const float2 w8 = weigh_pair(s, strip, block + 1, half);
            p[step][strip][word] = e4m3::encode4(w.x, w.y, w8.x, w8.y);
            if (has_residuals(step) && word < 2)
                p[residuals_of(step)][strip][word] = e4m3::encode4_residuals(w.x, w.y, w8.x, w8.y, p[step][strip][word]);
        } else {
            p[step][strip][word] = pack(w.x, w.y, static_cast<const __half*>(nullptr));
        }
    }

    // O = correction O + P V, with P's errors. A lane's registers of a transposed load of 32 keys x 16 bytes hold keys
    // 2q, 2q+1 (+8, +16, +24) of columns 2r and 2r+1; two byte permutations bring the even and the odd column of those
    // same keys together. The blocks of O therefore have the even and the odd columns of a chunk. The errors of P are
    // multiplied first; if they came last, the compiler would spill at head_dim 256.
    __device__ void add_values(const Weights& p, KvTile v) {
        const LaneRow<KvTile> place(v, lane(), 0);
#pragma unroll
        for (int chunk = 0; chunk < ROW_CHUNKS; ++chunk) {
            float even[STRIPS][4] = {}, odd[STRIPS][4] = {};
#pragma unroll
            for (int load = 0; load < KEYS / 32; ++load) {
                unsigned r[4];
                ptx::load_matrix_x4_transposed(r, place.at(32 * load, chunk));
                const unsigned b[4] = {__byte_perm(r[0], r[1], 0x6420), __byte_perm(r[2], r[3], 0x6420),
                                       __byte_perm(r[0], r[1], 0x7531), __byte_perm(r[2], r[3], 0x7531)};
#pragma unroll
                for (int strip = 0; strip < STRIPS; ++strip) {
                    float(&to_even)[4] = SUMS_APART ? even[strip] : output[strip][2 * chunk];
                    float(&to_odd)[4] = SUMS_APART ? odd[strip] : output[strip][2 * chunk + 1];
                    if constexpr (FP8_WEIGHTS) {
                        if (has_residuals(load)) {
                            const unsigned(&residuals)[4] = p[residuals_of(load)][strip];
                            ptx::mma_16x8x16_e4m3(to_even, residuals[0], residuals[1], b[0]);
                            ptx::mma_16x8x16_e4m3(to_odd, residuals[0], residuals[1], b[2]);
                        }
                        Number::multiply_add(to_even, p[load][strip], b[0], b[1]);
                        Number::multiply_add(to_odd, p[load][strip], b[2], b[3]);
                    } else {
#pragma unroll
                        for (int i = 0; i < 4; ++i)
                            multiply_unpacked(i < 2 ? to_even : to_odd, p[2 * load + i % 2][strip], b[i]);
                    }
                }
            }
            if constexpr (SUMS_APART) {
#pragma unroll
                for (int i = 0; i < STRIPS * 4; ++i) {
                    const int strip = i / 4, e = i % 4;
                    float &o_even = output[strip][2 * chunk][e], &o_odd = output[strip][2 * chunk + 1][e];
                    o_even = fmaf(o_even, correction[strip][e / 2], even[strip][e]);
                    o_odd = fmaf(o_odd, correction[strip][e / 2], odd[strip][e]);
                }
            }
        }
    }

    // Turns the scores into weights and adds the weighted values.
    __device__ void add_weighted(const Scores& s, KvTile v) {
        Weights p;
#pragma unroll
        for (int step = 0; step < KEY_STEPS; ++step) weigh_part(*this, p, s, step, 0, 1);
        add_values(p, v);
    }
    __device__ void add_beside_scores(const Weights&, KvTile, int, int) {}
    __device__ void add_after_scores(const Weights& p, KvTile v) { add_values(p, v); }

    // ---- the outputs as words of two neighbouring columns, which are in two blocks ----

    static constexpr int WORDS = HEAD_DIM / 8;
    __device__ static int column_of(int word) { return word / 2 * 16 + quad_lane() * 4 + word % 2 * 2; }
    __device__ float2 word_of(int strip, int half, int word) const {
        const int block = word / 2 * 2, i = 2 * half + word % 2;
        return make_float2(output[strip][block][i], output[strip][block + 1][i]);
    }
    // Four words of a lane, of columns column_of(word + 0..3), become eight neighbouring columns. Returns the first.
    __device__ static int gather(unsigned (&w)[4], int word) {  // words 0, 1 of two lanes are one chunk, words 2, 3 another
        exchange(w[0], w[2], 1);
        exchange(w[1], w[3], 1);
        return (word / 2 + lane() % 2) * 16 + quad_lane() / 2 * 8;
    }

    // Every lane of a row gets the row's sum. A row that has seen no key has sum 0.
    __device__ void complete_sums() {
#pragma unroll
        for (int i = 0; i < STRIPS * 2; ++i) sum[i / 2][i % 2] = group_sum<4>(sum[i / 2][i % 2]);
    }
};

}  // namespace flash
