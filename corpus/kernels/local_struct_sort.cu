// Heap sort of 12 records in local memory per thread, records moved as structs of mixed sizes.
// Expected: keys of every row ascending, tags following their keys.
// warpsmith: --arch sm_80 --kernel heap_sort --grid 1 --block 32 --shared 0
// warpsmith: --arg key=i16[32,12]=randint(237,-3000,3000) --arg keys_out=out,i16[32,12] --arg index_out=out,u8[32,12]

struct Record {
    short key;
    unsigned char index;
};

__device__ void sift(Record* h, int root, int n)
{
    const Record moving = h[root];
    while (2 * root + 1 < n) {
        int child = 2 * root + 1;
        // Equal keys are ordered by their index, so the order is total.
        if (child + 1 < n && (h[child].key < h[child + 1].key ||
                              (h[child].key == h[child + 1].key && h[child].index < h[child + 1].index)))
            ++child;
        if (h[child].key < moving.key || (h[child].key == moving.key && h[child].index < moving.index))
            break;
        h[root] = h[child];
        root = child;
    }
    h[root] = moving;
}

extern "C" __global__ void heap_sort(const short* key, short* keys_out, unsigned char* index_out)
{
    Record h[12];
    const int row = threadIdx.x;
    for (int k = 0; k < 12; ++k)
        h[k] = {key[row * 12 + k], (unsigned char)k};
    for (int k = 5; k >= 0; --k)
        sift(h, k, 12);
    for (int n = 11; n > 0; --n) {
        const Record top = h[0];
        h[0] = h[n];
        h[n] = top;
        sift(h, 0, n);
    }
    for (int k = 0; k < 12; ++k) {
        keys_out[row * 12 + k] = h[k].key;
        index_out[row * 12 + k] = h[k].index;
    }
}
