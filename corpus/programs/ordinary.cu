// Programs in the styles of common samples. Each checks its own result; the exit code is the number of those that failed.

#include <cooperative_groups.h>
#include <cuda_runtime.h>
#include <thrust/device_vector.h>
#include <thrust/functional.h>
#include <thrust/reduce.h>
#include <thrust/transform.h>

#include <cassert>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CHECK(call)                                                                                      \
    do {                                                                                                 \
        cudaError_t error = (call);                                                                      \
        if (error != cudaSuccess) {                                                                      \
            printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error));             \
            exit(9);                                                                                     \
        }                                                                                                \
    } while (0)

__constant__ float weights[5];
__device__ unsigned int total;

__global__ void stencil(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0;
    for (int k = -2; k <= 2; k++) {
        int at = min(max(i + k, 0), n - 1);
        sum += weights[k + 2] * in[at];
    }
    out[i] = sum;
}

static bool constants_and_symbols() {
    const int n = 1000;
    std::vector<float> in(n), out(n);
    float host_weights[5] = {1, 2, 3, 2, 1};
    for (int i = 0; i < n; i++) in[i] = float(i % 17);
    float *d_in, *d_out;
    CHECK(cudaMalloc(&d_in, n * sizeof(float)));
    CHECK(cudaMalloc(&d_out, n * sizeof(float)));
    CHECK(cudaMemcpyToSymbol(weights, host_weights, sizeof host_weights));
    CHECK(cudaMemcpy(d_in, in.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    stencil<<<(n + 127) / 128, 128>>>(d_in, d_out, n);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(out.data(), d_out, n * sizeof(float), cudaMemcpyDeviceToHost));
    CHECK(cudaFree(d_in));
    CHECK(cudaFree(d_out));
    for (int i = 0; i < n; i++) {
        float want = 0;
        for (int k = -2; k <= 2; k++) want += host_weights[k + 2] * in[std::min(std::max(i + k, 0), n - 1)];
        if (want != out[i]) return false;
    }
    return true;
}

template <int TILE>
__global__ void product(const float* a, const float* b, float* c, int n) {
    __shared__ float ta[TILE][TILE], tb[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (int t = 0; t < n; t += TILE) {
        ta[threadIdx.y][threadIdx.x] = a[row * n + t + threadIdx.x];
        tb[threadIdx.y][threadIdx.x] = b[(t + threadIdx.y) * n + column];
        __syncthreads();
        for (int k = 0; k < TILE; k++) sum += ta[threadIdx.y][k] * tb[k][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

static bool managed_product() {
    const int n = 64;
    float *a, *b, *c;
    CHECK(cudaMallocManaged(&a, n * n * sizeof(float)));
    CHECK(cudaMallocManaged(&b, n * n * sizeof(float)));
    CHECK(cudaMallocManaged(&c, n * n * sizeof(float)));
    for (int i = 0; i < n * n; i++) {
        a[i] = float(i % 5);
        b[i] = float(i % 7);
    }
    product<16><<<dim3(n / 16, n / 16), dim3(16, 16)>>>(a, b, c, n);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    bool right = true;
    for (int r = 0; r < n; r++) {
        for (int s = 0; s < n; s++) {
            float want = 0;
            for (int k = 0; k < n; k++) want += a[r * n + k] * b[k * n + s];
            right = right && want == c[r * n + s];
        }
    }
    CHECK(cudaFree(a));
    CHECK(cudaFree(b));
    CHECK(cudaFree(c));
    return right;
}

__global__ void add_one(int* data, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) data[i] += 1;
}

static void CUDART_CB count_call(void* data) { ++*(int*)data; }

static bool streams_events_and_callbacks() {
    const int n = 4096, streams = 4, each = n / streams;
    int *host, *device, calls = 0;
    CHECK(cudaMallocHost(&host, n * sizeof(int)));
    CHECK(cudaMalloc(&device, n * sizeof(int)));
    for (int i = 0; i < n; i++) host[i] = i;
    cudaStream_t stream[streams];
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    CHECK(cudaEventRecord(begin));
    for (int s = 0; s < streams; s++) {
        CHECK(cudaStreamCreate(&stream[s]));
        int first = s * each;
        CHECK(cudaMemcpyAsync(device + first, host + first, each * sizeof(int), cudaMemcpyHostToDevice, stream[s]));
        add_one<<<4, 64, 0, stream[s]>>>(device + first, each);
        CHECK(cudaMemcpyAsync(host + first, device + first, each * sizeof(int), cudaMemcpyDeviceToHost, stream[s]));
        CHECK(cudaLaunchHostFunc(stream[s], count_call, &calls));
    }
    CHECK(cudaEventRecord(end));
    CHECK(cudaEventSynchronize(end));
    float time = -1;
    CHECK(cudaEventElapsedTime(&time, begin, end));
    bool right = time > 0 && calls == streams;
    for (int i = 0; i < n; i++) right = right && host[i] == i + 1;
    for (cudaStream_t it : stream) CHECK(cudaStreamDestroy(it));
    CHECK(cudaEventDestroy(begin));
    CHECK(cudaEventDestroy(end));
    CHECK(cudaFreeHost(host));
    CHECK(cudaFree(device));
    return right;
}

static bool graphs_of_two_streams() {
    const int n = 512;
    int *a, *b, host[n];
    CHECK(cudaMalloc(&a, n * sizeof(int)));
    CHECK(cudaMalloc(&b, n * sizeof(int)));
    cudaStream_t main, side;
    cudaEvent_t fork, join;
    CHECK(cudaStreamCreate(&main));
    CHECK(cudaStreamCreate(&side));
    CHECK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK(cudaStreamBeginCapture(main, cudaStreamCaptureModeGlobal));
    CHECK(cudaMemsetAsync(a, 0, n * sizeof(int), main));
    CHECK(cudaEventRecord(fork, main));
    CHECK(cudaStreamWaitEvent(side, fork, 0));
    CHECK(cudaMemsetAsync(b, 0, n * sizeof(int), side));
    add_one<<<2, 64, 0, side>>>(b, n);
    CHECK(cudaEventRecord(join, side));
    add_one<<<2, 64, 0, main>>>(a, n);
    CHECK(cudaStreamWaitEvent(main, join, 0));
    CHECK(cudaMemcpyAsync(a, b, n / 2 * sizeof(int), cudaMemcpyDeviceToDevice, main));
    add_one<<<2, 64, 0, main>>>(a, n);
    CHECK(cudaStreamEndCapture(main, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    for (int i = 0; i < 3; i++) CHECK(cudaGraphLaunch(executable, main));
    CHECK(cudaStreamSynchronize(main));
    CHECK(cudaMemcpy(host, a, sizeof host, cudaMemcpyDeviceToHost));
    size_t nodes = 0;
    CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
    bool right = nodes == 6;
    for (int value : host) right = right && value == 2;
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaEventDestroy(fork));
    CHECK(cudaEventDestroy(join));
    CHECK(cudaStreamDestroy(main));
    CHECK(cudaStreamDestroy(side));
    CHECK(cudaFree(a));
    CHECK(cudaFree(b));
    return right;
}

__global__ void grid_sum(const int* data, int n, unsigned int* partial) {
    cooperative_groups::grid_group grid = cooperative_groups::this_grid();
    unsigned int sum = 0;
    for (int i = grid.thread_rank(); i < n; i += grid.size()) sum += data[i];
    atomicAdd(&partial[blockIdx.x], sum);
    grid.sync();
    if (grid.thread_rank() == 0) {
        unsigned int all = 0;
        for (unsigned int b = 0; b < gridDim.x; b++) all += partial[b];
        total = all;
    }
}

static bool cooperative_launch() {
    const int n = 3000;
    std::vector<int> host(n, 2);
    int* data;
    unsigned int *partial, result = 0;
    CHECK(cudaMalloc(&data, n * sizeof(int)));
    CHECK(cudaMalloc(&partial, 8 * sizeof(int)));
    CHECK(cudaMemset(partial, 0, 8 * sizeof(int)));
    CHECK(cudaMemcpy(data, host.data(), n * sizeof(int), cudaMemcpyHostToDevice));
    int count = n;
    void* arguments[] = {&data, &count, &partial};
    CHECK(cudaLaunchCooperativeKernel((void*)grid_sum, dim3(8), dim3(64), arguments, 0, nullptr));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpyFromSymbol(&result, total, sizeof result));
    CHECK(cudaFree(data));
    CHECK(cudaFree(partial));
    return result == 2 * n;
}

static bool pitched_copies() {
    const int width = 37, height = 11;
    std::vector<char> in(width * height), out(width * height);
    for (size_t i = 0; i < in.size(); i++) in[i] = char(i);
    char* device;
    size_t pitch;
    CHECK(cudaMallocPitch(&device, &pitch, width, height));
    CHECK(cudaMemset2D(device, pitch, 0, width, height));
    CHECK(cudaMemcpy2D(device, pitch, in.data(), width, width, height, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy2D(out.data(), width, device, pitch, width, height, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(device));
    cudaPitchedPtr box = {};
    CHECK(cudaMalloc3D(&box, make_cudaExtent(width, height, 3)));
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(in.data(), width, width, height);
    copy.dstPtr = box;
    copy.extent = make_cudaExtent(width, height, 1);
    copy.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&copy));
    CHECK(cudaFree(box.ptr));
    return pitch >= size_t(width) && in == out;
}

static bool thrust_algorithms() {
    std::vector<int> host(2000);
    for (size_t i = 0; i < host.size(); i++) host[i] = int(i * 7919 % 2003);
    thrust::device_vector<int> data(host.begin(), host.end());
    long long want = 0;
    for (int value : host) want += value;
    thrust::transform(data.begin(), data.end(), data.begin(), thrust::negate<int>());
    return thrust::reduce(data.begin(), data.end(), 0LL) == -want;
}

__global__ void assert_small(const int* values, int most) { assert(values[threadIdx.x] <= most); }

// Not among the others: after a failed assertion the device cannot be used.
static bool failed_assertions() {
    int host[32] = {}, *values;
    CHECK(cudaMalloc(&values, sizeof host));
    CHECK(cudaMemcpy(values, host, sizeof host, cudaMemcpyHostToDevice));
    assert_small<<<1, 32>>>(values, 0);
    CHECK(cudaDeviceSynchronize());
    assert_small<<<1, 32>>>(values, -1);
    return cudaDeviceSynchronize() == cudaErrorAssert && cudaGetLastError() == cudaErrorAssert;
}

static bool copies_to_pinned_memory() {
    float *pinned, *managed, *device;
    CHECK(cudaMallocHost(&pinned, 1 << 16));
    CHECK(cudaMallocManaged(&managed, 1 << 16));
    CHECK(cudaMalloc(&device, 1 << 16));
    for (int i = 0; i < 1 << 14; i++) pinned[i] = float(i);
    CHECK(cudaMemcpy(device, pinned, 1 << 16, cudaMemcpyHostToDevice));
    pinned[5] = 0;
    CHECK(cudaMemcpy(pinned, device, 1 << 16, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(managed, pinned, 1 << 16, cudaMemcpyDefault));
    bool right = pinned[5] == 5 && managed[16383] == 16383;
    CHECK(cudaFreeHost(pinned));
    CHECK(cudaFree(managed));
    CHECK(cudaFree(device));
    return right;
}

__managed__ int managed_count = 5;
__device__ __managed__ float managed_table[64] = {1, 2, 3};

__global__ void count_and_double() {
    atomicAdd(&managed_count, 1);
    managed_table[threadIdx.x] *= 2;
}

static bool managed_variables() {
    bool right = managed_count == 5 && managed_table[2] == 3;
    managed_table[2] = 8;
    count_and_double<<<1, 64>>>();
    CHECK(cudaDeviceSynchronize());
    right = right && managed_count == 69 && managed_table[0] == 2 && managed_table[2] == 16;
    int copied = 0, *address;
    CHECK(cudaMemcpyFromSymbol(&copied, managed_count, sizeof copied));
    CHECK(cudaGetSymbolAddress((void**)&address, managed_count));
    cudaPointerAttributes attributes;
    CHECK(cudaPointerGetAttributes(&attributes, address));
    return right && copied == 69 && *address == 69 && attributes.type == cudaMemoryTypeManaged;
}

static bool errors_and_queries() {
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    int sms = 0, blocks = 0, least, block, grid;
    CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add_one, 256, 0));
    CHECK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, add_one, 0, 0));
    CHECK(cudaDeviceGetStreamPriorityRange(&least, nullptr));
    bool right = properties.multiProcessorCount == sms && blocks > 0 && block > 0 && grid >= sms;
    right = right && cudaSetDevice(7) == cudaErrorInvalidDevice && cudaGetLastError() == cudaErrorInvalidDevice;
    right = right && cudaGetLastError() == cudaSuccess;
    int *host, *device, plain;
    CHECK(cudaMallocHost(&host, 64));
    CHECK(cudaMalloc(&device, 64));
    cudaPointerAttributes attributes;
    CHECK(cudaPointerGetAttributes(&attributes, host));
    right = right && attributes.type == cudaMemoryTypeHost;
    CHECK(cudaPointerGetAttributes(&attributes, device + 3));
    right = right && attributes.type == cudaMemoryTypeDevice && attributes.devicePointer == device + 3;
    CHECK(cudaPointerGetAttributes(&attributes, &plain));
    right = right && attributes.type == cudaMemoryTypeUnregistered;
    CHECK(cudaFreeHost(host));
    CHECK(cudaFree(device));
    return right;
}

struct Program {
    const char* name;
    bool (*run)();
};

#define PROGRAM(name) {#name, name}
static const Program PROGRAMS[] = {
    PROGRAM(constants_and_symbols), PROGRAM(managed_product),    PROGRAM(streams_events_and_callbacks),
    PROGRAM(graphs_of_two_streams), PROGRAM(cooperative_launch), PROGRAM(pitched_copies),
    PROGRAM(thrust_algorithms),     PROGRAM(errors_and_queries),
    PROGRAM(managed_variables),     PROGRAM(copies_to_pinned_memory),
};

int main(int count, char** words) {
    int failed = 0;
    for (const Program& program : PROGRAMS) {
        if (count > 1 && strcmp(words[1], program.name)) continue;
        bool right = program.run();
        printf("%s: %s\n", program.name, right ? "right" : "WRONG");
        failed += !right;
    }
    if (count > 1 && !strcmp(words[1], "failed_assertions")) {
        failed = !failed_assertions();
        printf("failed_assertions: %s\n", failed ? "WRONG" : "right");
    }
    return failed;
}
