/* Answers of the driver that programs rely on without checking: each is what a GPU answers. */
#include "driver_expect.h"

enum { BYTES = 1 << 16 };

/* ---- pointer attributes ---- */

enum { FLAGS = 5 };
static const CUpointer_attribute flag[FLAGS] = {
    CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, CU_POINTER_ATTRIBUTE_MAPPED,
    CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
    CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE};

/* Checks the flags of a pointer, asked one by one and together, in variables that held other
 * values. */
static void expect_flags(CUdeviceptr p, const unsigned expected[FLAGS]) {
    unsigned got[FLAGS];
    CUpointer_attribute asked[FLAGS];
    void *answers[FLAGS];
    memset(got, 0x5a, sizeof got);
    for (int i = 0; i < FLAGS; i++) {
        ok(cuPointerGetAttribute(&got[i], flag[i], p));
        asked[i] = flag[i];
        answers[i] = &got[i];
    }
    assert_memory_equal(got, expected, sizeof got);
    memset(got, 0x5a, sizeof got);
    ok(cuPointerGetAttributes(FLAGS, asked, answers, p));
    assert_memory_equal(got, expected, sizeof got);
}

TEST(answers_flags_of_pointers_are_ints) {
    CUdeviceptr plain = 0, managed = 0;
    unsigned on = 1;
    ok(cuMemAlloc(&plain, BYTES));
    ok(cuMemAllocManaged(&managed, BYTES, CU_MEM_ATTACH_GLOBAL));
    ok(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, plain));
    expect_flags(plain, (const unsigned[FLAGS]){0, 1, 1, 1, 1});
    ok(cuPointerGetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, managed));
    expect_flags(managed, (const unsigned[FLAGS]){1, on, 1, 0, 0});
    ok(cuMemFree(plain));
    ok(cuMemFree(managed));
}

/* The attribute says which memory has a handle for other processes. */
static void expect_handle(CUdeviceptr p, unsigned expected) {
    CUresult (*get)(void *, CUdeviceptr);
    unsigned capable = 7;
    unsigned char handle[CU_IPC_HANDLE_SIZE];
    take(get, "cuIpcGetMemHandle");
    ok(cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, p));
    assert_int_equal(capable, expected);
    expect(expected ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE, get(handle, p));
}

TEST(answers_ipc_handles_exist_as_said) {
    CUdeviceptr plain = 0, managed = 0;
    void *pinned = NULL;
    ok(cuMemAlloc(&plain, BYTES));
    ok(cuMemAllocManaged(&managed, BYTES, CU_MEM_ATTACH_GLOBAL));
    ok(cuMemAllocHost(&pinned, BYTES));
    expect_handle(plain, 1);
    expect_handle(managed, 0);
    expect_handle((CUdeviceptr)(uintptr_t)pinned, 0);
    ok(cuMemFree(plain));
    ok(cuMemFree(managed));
    ok(cuMemFreeHost(pinned));
}

/* ---- without a current context ---- */

TEST(answers_without_a_context) {
    CUcontext ctx = NULL;
    CUdevice dev;
    CUdeviceptr plain = 0;
    CUevent event;
    CUstream stream;
    unsigned type = 0;
    size_t bytes = 0;
    void *pinned = NULL, *own = aligned_alloc(65536, BYTES);
    assert_non_null(own);
    ok(cuMemAlloc(&plain, BYTES));
    ok(cuMemAllocHost(&pinned, BYTES));
    ok(cuMemHostRegister(own, BYTES, 0));
    ok(cuStreamCreate(&stream, 0));
    ok(cuEventCreate(&event, 0));
    ok(cuCtxPopCurrent(&ctx));
    expect(CUDA_ERROR_INVALID_CONTEXT, cuCtxGetDevice(&dev));
    expect(CUDA_ERROR_INVALID_CONTEXT, cuMemGetInfo(&bytes, &bytes));
    ok(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, plain));
    assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
    ok(cuEventRecord(event, stream));
    ok(cuEventSynchronize(event));
    ok(cuStreamSynchronize(stream));
    ok(cuEventDestroy(event));
    ok(cuStreamDestroy(stream));
    ok(cuMemFreeHost(pinned));
    ok(cuMemHostUnregister(own));
    ok(cuMemFree(plain));
    ok(cuCtxPushCurrent(ctx));
    expect(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(pinned));
    expect(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(own));
    free(own);
}

/* ---- allocations in a capture ---- */

/* The allocation is a node of the graph, in every mode of capture. */
TEST(answers_allocation_in_a_capture_is_a_node) {
    static const CUstreamCaptureMode mode[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
                                               CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                               CU_STREAM_CAPTURE_MODE_RELAXED};
    unsigned char *pinned = NULL;
    CUstream stream;
    ok(cuMemAllocHost((void **)&pinned, BYTES));
    ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; i < 3; i++) {
        CUdeviceptr p = 0;
        CUgraph graph = NULL;
        CUgraphExec exec = NULL;
        ok(cuStreamBeginCapture(stream, mode[i]));
        ok(cuMemAllocAsync(&p, BYTES, stream));
        assert_true(p != 0);
        ok(cuMemsetD8Async(p, (unsigned char)(i + 5), BYTES, stream));
        ok(cuMemcpyDtoHAsync(pinned, p, BYTES, stream));
        ok(cuMemFreeAsync(p, stream));
        ok(cuStreamEndCapture(stream, &graph));
        ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
        for (int launch = 0; launch < 3; launch++) {
            memset(pinned, 0, BYTES);
            ok(cuGraphLaunch(exec, stream));
            ok(cuStreamSynchronize(stream));
            assert_int_equal(pinned[BYTES - 1], i + 5);
        }
        ok(cuGraphExecDestroy(exec));
        ok(cuGraphDestroy(graph));
    }
    ok(cuStreamDestroy(stream));
    ok(cuMemFreeHost(pinned));
}

/* ---- modules ---- */

static const char ptx[] = ".version 8.0\n.target sm_90\n.address_size 64\n"
                          ".visible .entry f()\n{\nret;\n}\n";

/* All calls that load a module accept the same images. */
TEST(answers_modules_load_by_every_call) {
    CUresult (*data)(void **, const void *), (*fat)(void **, const void *);
    CUresult (*options)(void **, const void *, unsigned, void *, void **);
    CUresult (*file)(void **, const char *), (*unload)(void *);
    CUresult (*function)(void **, void *, const char *);
    char path[] = "/tmp/acre-module-XXXXXX";
    void *module = NULL, *found = NULL;
    int fd = mkstemp(path);
    take(data, "cuModuleLoadData");
    take(options, "cuModuleLoadDataEx");
    take(fat, "cuModuleLoadFatBinary");
    take(file, "cuModuleLoad");
    take(unload, "cuModuleUnload");
    take(function, "cuModuleGetFunction");
    assert_true(fd >= 0);
    assert_int_equal(write(fd, ptx, strlen(ptx)), strlen(ptx));
    assert_int_equal(close(fd), 0);
    ok(data(&module, ptx));
    /* Only a GPU runs the kernel. */
    expect(on_standin() ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS, function(&found, module, "f"));
    ok(unload(module));
    ok(options(&module, ptx, 0, NULL, NULL));
    ok(unload(module));
    ok(file(&module, path));
    ok(unload(module));
    assert_int_equal(unlink(path), 0);
    expect(CUDA_ERROR_FILE_NOT_FOUND, file(&module, path));
    expect(CUDA_ERROR_INVALID_IMAGE, data(&module, "hello"));
    expect(CUDA_ERROR_INVALID_IMAGE, options(&module, "hello", 0, NULL, NULL));
    if (on_standin()) {
        ok(fat(&module, ptx));
        ok(unload(module));
        expect(CUDA_ERROR_INVALID_IMAGE, fat(&module, "hello"));
        expect(CUDA_ERROR_FILE_NOT_FOUND, file(&module, "/tmp"));
        expect(CUDA_ERROR_INVALID_VALUE, file(&module, NULL));
    }
}

int main(void) {
    return tests_run_with("driver_answers", driver_begin, NULL);
}
