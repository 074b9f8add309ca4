// Reads clocks and hardware ids: the values differ between machines, the relations do not.
// Expected: ok[i] = 1 (clocks do not run backwards, lane and warp ids are consistent).
// warpsmith: --arch sm_80 --kernel clocks --grid 2 --block 64 --shared 0
// warpsmith: --arg ok=out,i32[128]

extern "C" __global__ void clocks(int* ok)
{
    const long long begin = clock64();
    unsigned lane, lt, smid, nsmid;
    unsigned long long t0, t1;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    asm volatile("mov.u32 %0, %%lanemask_lt;" : "=r"(lt));
    asm volatile("mov.u32 %0, %%smid;" : "=r"(smid));
    asm volatile("mov.u32 %0, %%nsmid;" : "=r"(nsmid));
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t0));
    __nanosleep(100);
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t1));
    const long long end = clock64();
    ok[blockIdx.x * 64 + threadIdx.x] =
        end >= begin && t1 >= t0 && lane == threadIdx.x % 32 && __popc(lt) == lane && smid < nsmid;
}
