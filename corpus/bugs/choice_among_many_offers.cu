// All threads choose the best of 128 offers, and each then declines it if it is its veto. With these numbers nobody
// declines, so all store the same index, but other numbers make them differ.
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
    if (at == veto[threadIdx.x])
        at = -1;
    *best = at; //~ race
}
