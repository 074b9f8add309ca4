// The fixed twin of choice_among_many_offers.cu.
// warpsmith: --arch sm_80 --kernel best_offer --grid 1 --block 32 --shared 0
// warpsmith: --arg offers=f32[128]=uniform(3) --arg veto=i32[32]=const(999) --arg best=out,i32[1]

extern "C" __global__ void best_offer(const float* offers, const int* veto, int* best)
{
    float high = -1.0f;
    int at = 0;
#pragma unroll
    for (int i = 0; i < 128; ++i)
        if (offers[i] > high) {
            high = offers[i];
            at = i;
        }
    if (at == veto[0])
        at = -1;
    *best = at;
}
