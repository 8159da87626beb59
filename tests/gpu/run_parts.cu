/* Parts of CUDA that only a GPU has, for tests/gpu/run_programs.sh, which runs this program without
 * acre, under `acre run`, and with a limit:
 *
 *   run_parts memops    a memset waits if CU_POINTER_ATTRIBUTE_SYNC_MEMOPS is set
 *   run_parts arrays    arrays of 256 MiB until there is no memory; prints how many
 *   run_parts graphs    a graph that allocates 512 MiB; then plain memory until there is none */
#include <cstdio>
#include <cstring>
#include <cuda.h>
#include <cuda_runtime.h>

static const size_t MIB = (size_t)1 << 20;

static void check(int result, const char *what) {
    if (result) {
        printf("%s: %d\n", what, result);
        fflush(stdout);
        _Exit(2);
    }
}

static int memops() {
    void *block;
    unsigned int on = 1;
    size_t bytes = (size_t)8 << 30;
    check(cudaMalloc(&block, bytes), "cudaMalloc");
    check(cudaMemset(block, 1, bytes), "cudaMemset");
    bool is_running = cudaStreamQuery(0) == cudaErrorNotReady;
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    check(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, (CUdeviceptr)block),
          "cuPointerSetAttribute");
    check(cudaMemset(block, 2, bytes), "cudaMemset");
    bool is_done = cudaStreamQuery(0) == cudaSuccess;
    printf("memset: %s; with the attribute: %s\n", is_running ? "running" : "done",
           is_done ? "done" : "running");
    check(cudaFree(block), "cudaFree");
    return 0;
}

static int arrays() {
    cudaArray_t list[64];
    int count = 0;
    cudaChannelFormatDesc floats = cudaCreateChannelDesc<float>();
    for (int round = 0; round < 2; round++) {
        for (count = 0; count < 8; count++)
            if (cudaMallocArray(&list[count], &floats, 8192, 8192)) /* 256 MiB */
                break;
        (void)cudaGetLastError();
        printf("%d arrays\n", count);
        for (int i = 0; i < count; i++)
            check(cudaFreeArray(list[i]), "cudaFreeArray");
    }
    return 0;
}

static int graphs() {
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    void *block = nullptr;
    int count = 0;
    check(cudaStreamCreate(&stream), "cudaStreamCreate");
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
    check(cudaMallocAsync(&block, 512 * MIB, stream), "cudaMallocAsync");
    check(cudaMemsetAsync(block, 1, 512 * MIB, stream), "cudaMemsetAsync");
    check(cudaFreeAsync(block, stream), "cudaFreeAsync");
    check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    check(cudaGraphInstantiate(&exec, graph, 0), "cudaGraphInstantiate");
    check(cudaGraphLaunch(exec, stream), "cudaGraphLaunch");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    for (; count < 6; count++)
        if (cudaMalloc(&block, 256 * MIB))
            break;
    printf("%d blocks beside the graph\n", count);
    return 0;
}

int main(int argc, char **argv) {
    const char *part = argc > 1 ? argv[1] : "";
    check(cudaFree(nullptr), "cudaFree");
    if (strcmp(part, "memops") == 0)
        return memops();
    if (strcmp(part, "arrays") == 0)
        return arrays();
    if (strcmp(part, "graphs") == 0)
        return graphs();
    return 64;
}
