// Programs with one mistake each. Arguments: the name, and `fixed` for the twin without the mistake.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>

#include <thread>

static const int N = 1024;

__global__ void twice(float* data, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] = 2.0f * data[i];
}

__global__ void dynamic_sum(const float* data, float* sum) {
    extern __shared__ float part[];
    part[threadIdx.x] = data[threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) {
        float all = 0;
        for (int i = 0; i < (int)blockDim.x; i++) all += part[i];
        *sum = all;
    }
}

static float* filled(int n) {
    float* data;
    cudaMalloc(&data, n * sizeof(float));
    cudaMemset(data, 0, n * sizeof(float));
    return data;
}

static void use_after_free(bool fixed) {
    float *data = filled(N), host[N];
    if (!fixed) cudaFree(data);
    cudaMemcpy(host, data, sizeof host, cudaMemcpyDeviceToHost);  // finding: use-after-free
    if (fixed) cudaFree(data);
}

static void double_free(bool fixed) {
    float* data = filled(N);
    cudaFree(data);
    if (!fixed) cudaFree(data);  // finding: double-free
}

static void invalid_free(bool fixed) {
    float* data = filled(N);
    if (!fixed) cudaFree(data + 1);  // finding: invalid-free
    cudaFree(data);
}

static void copy_too_large(bool fixed) {
    float *data = filled(N), host[2 * N] = {};
    cudaMemcpy(data, host, fixed ? N * sizeof(float) : sizeof host, cudaMemcpyHostToDevice);  // finding: copy-too-large
    cudaFree(data);
}

static void wrong_direction(bool fixed) {
    float *data = filled(N), host[N];
    cudaMemcpy(host, data, sizeof host, fixed ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice);  // finding: wrong-direction
    cudaFree(data);
}

static void stream_race(bool fixed) {
    float *data = filled(N), *host;
    cudaMallocHost(&host, N * sizeof(float));
    cudaStream_t compute, copy;
    cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&copy, cudaStreamNonBlocking);
    cudaDeviceSynchronize();
    cudaEvent_t done;
    cudaEventCreate(&done);
    twice<<<4, 256, 0, compute>>>(data, N);
    cudaEventRecord(done, compute);
    if (fixed) cudaStreamWaitEvent(copy, done, 0);
    cudaMemcpyAsync(host, data, N * sizeof(float), cudaMemcpyDeviceToHost, copy);  // finding: stream-race
    cudaDeviceSynchronize();
    cudaEventDestroy(done);
    cudaStreamDestroy(compute);
    cudaStreamDestroy(copy);
    cudaFreeHost(host);
    cudaFree(data);
}

static void free_too_early(bool fixed) {
    cudaStream_t compute, other;
    cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    float* data;
    cudaMallocAsync((void**)&data, N * sizeof(float), compute);
    cudaMemsetAsync(data, 0, N * sizeof(float), compute);
    twice<<<4, 256, 0, compute>>>(data, N);
    cudaFreeAsync(data, fixed ? compute : other);  // finding: stream-race
    cudaDeviceSynchronize();
    cudaStreamDestroy(compute);
    cudaStreamDestroy(other);
}

static void unchecked_launch(bool fixed) {
    float* data = filled(N);
    twice<<<1, fixed ? 1024 : 2048>>>(data, N);  // finding: unchecked-launch
    cudaDeviceSynchronize();
    cudaFree(data);
}

static void too_much_shared(bool fixed) {
    float *data = filled(N), *sum = filled(1);
    int bytes = 64 * 1024;
    if (fixed) cudaFuncSetAttribute(dynamic_sum, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    dynamic_sum<<<1, N, bytes>>>(data, sum);  // finding: invalid-launch
    if (cudaGetLastError() != cudaSuccess) printf("the launch failed\n");
    cudaDeviceSynchronize();
    cudaFree(data);
    cudaFree(sum);
}

static void leak(bool fixed) {
    float* data;
    cudaMalloc(&data, N * sizeof(float));  // finding: leak
    if (fixed) cudaFree(data);
}

static void wrong_argument(bool fixed) {
    float *data = filled(N), *host = (float*)calloc(N, sizeof(float));
    twice<<<4, 256>>>(fixed ? data : host, N);  // launch of: out-of-bounds
    if (cudaDeviceSynchronize() != cudaSuccess) printf("the kernel failed\n");
    cudaFree(data);
    free(host);
}

static void host_reads_early(bool fixed) {
    float *data = filled(N), *host;
    cudaMallocHost(&host, N * sizeof(float));
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaEvent_t done;
    cudaEventCreate(&done);
    cudaMemcpyAsync(host, data, N * sizeof(float), cudaMemcpyDeviceToHost, stream);
    cudaEventRecord(done, stream);
    if (fixed) cudaEventSynchronize(done);
    volatile float first = host[0];  // finding: host-race
    (void)first;
    cudaStreamSynchronize(stream);
    cudaEventDestroy(done);
    cudaStreamDestroy(stream);
    cudaFreeHost(host);
    cudaFree(data);
}

static void source_changed_early(bool fixed) {
    float *data = filled(N), *host;
    cudaMallocHost(&host, N * sizeof(float));
    memset(host, 0, N * sizeof(float));
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaMemcpyAsync(data, host, N * sizeof(float), cudaMemcpyHostToDevice, stream);
    if (fixed) cudaStreamSynchronize(stream);
    host[5] = 1.0f;  // finding: host-race
    cudaStreamSynchronize(stream);
    cudaStreamDestroy(stream);
    cudaFreeHost(host);
    cudaFree(data);
}

static void managed_read_early(bool fixed) {
    float* data;
    cudaMallocManaged(&data, N * sizeof(float));
    for (int i = 0; i < N; i++) data[i] = 1.0f;
    twice<<<4, 256>>>(data, N);
    if (fixed) cudaDeviceSynchronize();
    volatile float last = data[N - 1];  // finding: host-race
    (void)last;
    cudaDeviceSynchronize();
    cudaFree(data);
}

static void host_touches_device(bool fixed) {
    float *data = filled(N), first;
    if (fixed) cudaMemcpy(&first, data, sizeof first, cudaMemcpyDeviceToHost);
    else first = data[0];  // finding: host-access
    printf("%g\n", first);
    cudaFree(data);
}

static void stale_graph(bool fixed) {
    float* data = filled(N);
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    twice<<<4, 256, 0, stream>>>(data, N);
    cudaStreamEndCapture(stream, &graph);
    cudaGraphInstantiate(&executable, graph, 0);
    if (!fixed) cudaFree(data);
    cudaGraphLaunch(executable, stream);  // finding: stale-graph
    cudaStreamSynchronize(stream);
    if (fixed) cudaFree(data);
    cudaGraphExecDestroy(executable);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
}

static const char* WITH_TABLE = ".version 8.0\n.target sm_75\n.address_size 64\n.visible .const .align 4 .b8 table[16];\n"
                                ".visible .entry one()\n{\nret;\n}\n";
static const char* WITHOUT = ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry two()\n{\nret;\n}\n";

static void symbol_of_another_module(bool fixed) {
    cudaLibrary_t one, two;
    cudaLibraryLoadData(&one, WITH_TABLE, nullptr, nullptr, 0, nullptr, nullptr, 0);
    cudaLibraryLoadData(&two, WITHOUT, nullptr, nullptr, 0, nullptr, nullptr, 0);
    void* table;
    size_t bytes;
    cudaLibraryGetGlobal(&table, &bytes, fixed ? one : two, "table");  // finding: unknown-symbol
    cudaLibraryUnload(one);
    cudaLibraryUnload(two);
}

static cudaStream_t stream_of_its_own() {
    cudaStream_t stream;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    return stream;
}

static void destroyed_stream(bool fixed) {
    float* data = filled(N);
    cudaStream_t stream = stream_of_its_own();
    cudaDeviceSynchronize();
    if (!fixed) cudaStreamDestroy(stream);
    cudaMemsetAsync(data, 0, N, stream);  // finding: api-error
    cudaDeviceSynchronize();
    if (fixed) cudaStreamDestroy(stream);
    cudaFree(data);
}

static void event_recorded_early(bool fixed) {
    float *data = filled(N), *copy = filled(N);
    cudaStream_t compute = stream_of_its_own(), other = stream_of_its_own();
    cudaDeviceSynchronize();
    cudaEvent_t done;
    cudaEventCreate(&done);
    if (!fixed) cudaEventRecord(done, compute);
    twice<<<4, 256, 0, compute>>>(data, N);
    if (fixed) cudaEventRecord(done, compute);
    cudaStreamWaitEvent(other, done, 0);
    cudaMemcpyAsync(copy, data, N * sizeof(float), cudaMemcpyDeviceToDevice, other);  // finding: stream-race
    cudaDeviceSynchronize();
    cudaEventDestroy(done);
    cudaStreamDestroy(compute);
    cudaStreamDestroy(other);
    cudaFree(data);
    cudaFree(copy);
}

static void other_thread_does_not_wait(bool fixed) {
    float *data = filled(N), *copy = filled(N);
    cudaStream_t compute = stream_of_its_own(), other = stream_of_its_own();
    cudaDeviceSynchronize();
    std::thread worker([&] {
        twice<<<4, 256, 0, compute>>>(data, N);
        if (fixed) cudaStreamSynchronize(compute);
    });
    worker.join();
    cudaMemcpyAsync(copy, data, N * sizeof(float), cudaMemcpyDeviceToDevice, other);  // finding: stream-race
    cudaDeviceSynchronize();
    cudaStreamDestroy(compute);
    cudaStreamDestroy(other);
    cudaFree(data);
    cudaFree(copy);
}

static void empty_grid(bool fixed) {
    float* data = filled(N);
    int n = fixed ? N : 100;
    twice<<<n / 256, 256>>>(data, n);  // finding: invalid-launch
    cudaDeviceSynchronize();
    cudaFree(data);
}

struct Program {
    const char* name;
    void (*run)(bool);
};

#define PROGRAM(name) {#name, name}
static const Program PROGRAMS[] = {
    PROGRAM(use_after_free),     PROGRAM(double_free),         PROGRAM(invalid_free),
    PROGRAM(copy_too_large),     PROGRAM(wrong_direction),     PROGRAM(stream_race),
    PROGRAM(free_too_early),     PROGRAM(unchecked_launch),    PROGRAM(too_much_shared),
    PROGRAM(leak),               PROGRAM(wrong_argument),      PROGRAM(host_reads_early),
    PROGRAM(source_changed_early), PROGRAM(managed_read_early), PROGRAM(host_touches_device),
    PROGRAM(stale_graph),        PROGRAM(symbol_of_another_module), PROGRAM(destroyed_stream),
    PROGRAM(event_recorded_early), PROGRAM(other_thread_does_not_wait), PROGRAM(empty_grid),
};

int main(int count, char** words) {
    for (const Program& program : PROGRAMS) {
        if (count > 1 && !strcmp(words[1], program.name)) {
            program.run(count > 2 && !strcmp(words[2], "fixed"));
            return 0;
        }
    }
    printf("name a program\n");
    return 2;
}
