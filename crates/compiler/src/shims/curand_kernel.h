// The part of cuRAND's device interface that kernels use most, for a machine without cuRAND. The numbers have the right
// distributions and depend on seed, sequence and offset, but they are not cuRAND's numbers.
#pragma once

struct curandStatePhilox4_32_10 {
    unsigned long long key, sequence, position;
    float second_normal;
    bool has_second_normal;
};
typedef curandStatePhilox4_32_10 curandStatePhilox4_32_10_t, curandStateXORWOW_t, curandStateXORWOW, curandState_t,
    curandState, curandStateMRG32k3a_t, curandStateMRG32k3a;

__device__ inline unsigned int curand_word(unsigned long long key, unsigned long long sequence, unsigned long long position)
{
    // SplitMix64 of the three numbers.
    unsigned long long z = key + 0x9e3779b97f4a7c15ull * (sequence + 1) + 0xd1342543de82ef95ull * (position + 1);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return (unsigned int)((z ^ (z >> 31)) >> 32);
}

__device__ inline void curand_init(
    unsigned long long seed, unsigned long long sequence, unsigned long long offset, curandState* state)
{
    *state = {seed, sequence, offset, 0.0f, false};
}
__device__ inline unsigned int curand(curandState* state) { return curand_word(state->key, state->sequence, state->position++); }
__device__ inline uint4 curand4(curandState* state)
{
    unsigned int a = curand(state), b = curand(state), c = curand(state), d = curand(state);
    return make_uint4(a, b, c, d);
}
__device__ inline void skipahead(unsigned long long n, curandState* state) { state->position += n; }

// In (0, 1], like cuRAND.
__device__ inline float curand_uniform(curandState* state) { return (curand(state) >> 8) * 0x1p-24f + 0x1p-24f; }
__device__ inline double curand_uniform_double(curandState* state)
{
    unsigned long long high = curand(state), low = curand(state);
    return (((high << 32) | low) >> 11) * 0x1p-53 + 0x1p-53;
}
__device__ inline float4 curand_uniform4(curandState* state)
{
    float a = curand_uniform(state), b = curand_uniform(state), c = curand_uniform(state), d = curand_uniform(state);
    return make_float4(a, b, c, d);
}

__device__ inline float2 curand_normal2(curandState* state)
{
    float radius = sqrtf(-2.0f * logf(curand_uniform(state))), angle = 6.2831853071795864f * curand_uniform(state);
    return make_float2(radius * cosf(angle), radius * sinf(angle));
}
__device__ inline float curand_normal(curandState* state)
{
    if (state->has_second_normal) {
        state->has_second_normal = false;
        return state->second_normal;
    }
    float2 pair = curand_normal2(state);
    state->second_normal = pair.y;
    state->has_second_normal = true;
    return pair.x;
}
__device__ inline double curand_normal_double(curandState* state)
{
    double radius = sqrt(-2.0 * log(curand_uniform_double(state)));
    return radius * cos(6.283185307179586477 * curand_uniform_double(state));
}
__device__ inline float4 curand_normal4(curandState* state)
{
    float2 a = curand_normal2(state), b = curand_normal2(state);
    return make_float4(a.x, a.y, b.x, b.y);
}
__device__ inline float curand_log_normal(curandState* state, float mean, float deviation)
{
    return expf(mean + deviation * curand_normal(state));
}
__device__ inline unsigned int curand_poisson(curandState* state, double lambda)
{
    double limit = exp(-lambda), product = 1.0;
    unsigned int count = 0;
    for (product *= curand_uniform_double(state); product > limit && count < 100000; ++count)
        product *= curand_uniform_double(state);
    return count;
}
