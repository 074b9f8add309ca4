// C = A B^T + bias. The last tile has rows that A and B do not have; they become zeros and are not read.
// warpsmith: --arch sm_80 --kernel gemm --grid 3,2 --block 32 --shared 0
// warpsmith: --arg a=f16[40,64]=normal(3) --arg b=f16[13,64]=normal(4) --arg bias=f16[13]=normal(5) --arg c=out,f16[40,13]
// warpsmith: --arg m=i32=40 --arg n=i32=13 --arg k=i32=64

#include <cuda_fp16.h>

// C = A B^T + bias: 16 by 8 tiles, one warp, 16 columns of A and B per step in a ring of three stages.
constexpr int STAGES = 3;

__device__ unsigned shared_address(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }

__device__ void copy16(void* to, const void* from, bool valid)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 ::"r"(shared_address(to)), "l"(from), "r"(valid ? 16 : 0) : "memory");
}

__device__ void load_x4(unsigned (&r)[4], const void* row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(row)) : "memory");
}

__device__ void load_x2(unsigned (&r)[2], const void* row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1]) : "r"(shared_address(row)) : "memory");
}

__device__ void mma(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2])
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

extern "C" __global__ void gemm(const __half* a, const __half* b, const __half* bias, __half* c, int m, int n, int k)
{
    __shared__ __align__(16) __half tiles[STAGES][24][16]; // rows of A, then rows of B
    const int lane = threadIdx.x, first_m = blockIdx.x * 16, first_n = blockIdx.y * 8, steps = k / 16;
    const auto fill = [&](int step) {
        if (step < steps) {
            for (int i = lane; i < 48; i += 32) {
                const int row = i / 2, col = step * 16 + i % 2 * 8;
                const bool is_a = row < 16;
                const int from = is_a ? first_m + row : first_n + row - 16;
                const bool exists = from < (is_a ? m : n);
                const __half* source = exists ? (is_a ? a : b) + from * k + col : a;
                copy16(&tiles[step % STAGES][row][i % 2 * 8], source, exists);
            }
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    for (int step = 0; step < STAGES - 1; ++step)
        fill(step);
    float sums[4] = {};
    for (int step = 0; step < steps; ++step) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncwarp();
        fill(step + STAGES - 1);
        unsigned left[4], right[2];
        load_x4(left, &tiles[step % STAGES][lane % 16][lane / 16 * 8]);
        load_x2(right, &tiles[step % STAGES][16 + lane % 8][lane / 8 % 2 * 8]);
        mma(sums, left, right);
    }
    for (int i = 0; i < 4; ++i) {
        const int row = first_m + lane / 4 + i / 2 * 8, col = first_n + lane % 4 * 2 + i % 2;
        if (row < m && col < n)
            c[row * n + col] = __float2half_rn(sums[i] + __half2float(bias[col]));
    }
}
