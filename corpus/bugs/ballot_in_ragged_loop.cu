// Stream compaction: in the last iteration of the strided loop some lanes have left, but the ballot names all 32.
// warpsmith: --arch sm_80 --kernel compact --grid 1 --block 32 --shared 0
// warpsmith: --arg x=f32[75]=normal(3) --arg out=scratch,f32[75] --arg count=out,i32[1] --arg n=i32=75

extern "C" __global__ void compact(const float* x, float* out, int* count, int n)
{
    const int lane = threadIdx.x;
    int base = 0;
    for (int i = lane; i < n; i += 32) {
        const bool keep = x[i] > 0.0f;
        const unsigned votes = __ballot_sync(0xffffffffu, keep); //~ warp-mask
        if (keep)
            out[base + __popc(votes & ((1u << lane) - 1))] = x[i];
        base += __popc(votes);
    }
    if (lane == 0)
        count[0] = base;
}
