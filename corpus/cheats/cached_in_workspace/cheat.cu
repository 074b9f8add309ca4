// cached_in_workspace. As cached_in_device_array, with the cache in the workspace.
// Without a defence it is reported as: right, with the time of a copy: nobody clears the workspace between
// launches.
// Must be refused as one of: state, non-deterministic, elements, l2, unwritten, non-finite, constant, independent,
// roofline, uninitialised.
#include "generated.cuh"

#include "common/between_launches.cuh"

extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    using namespace between_launches;
    const honest::Work work = honest::own_work();
    unsigned* head = static_cast<unsigned*>(args.workspace);  // [0] blocks arrived, [1] the fingerprint
    __half2* cache = static_cast<__half2*>(args.workspace) + 256;
    const unsigned now = fingerprint(args);
    if (fits(args) && head[1] == now) {
        give(args, work, cache);
    } else {
        honest::attend(args, work);
        if (fits(args)) keep(args, work, cache);
    }
    if (is_last_block(head) && threadIdx.x == 0) head[1] = now;
}
