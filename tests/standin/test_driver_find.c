/* Looking up the driver's functions as programs do: dlopen, dlsym, cuGetProcAddress in both
 * versions. */
#include "driver_expect.h"

#include <pthread.h>

#define VERSION 13000

typedef CUresult (*find_v1)(const char *name, void **function, int version, cuuint64_t flags);

static void *found(const char *name, int version, cuuint64_t flags,
                   CUdriverProcAddressQueryResult expected) {
    CUdriverProcAddressQueryResult status = 99;
    void *function = &status;
    ok(cuGetProcAddress_v2(name, &function, version, flags, &status));
    assert_int_equal(status, expected);
    return function;
}

static void *newest(const char *name) {
    return found(name, VERSION, CU_GET_PROC_ADDRESS_DEFAULT, CU_GET_PROC_ADDRESS_SUCCESS);
}

static void find_library_is_the_one_that_is_loaded(void **state) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    CUresult (*version)(int *);
    int number = 0;
    (void)state;
    assert_non_null(library);
    assert_ptr_equal(dlsym(library, "cuMemAlloc_v2"), exported("cuMemAlloc_v2"));
    void *function = dlsym(library, "cuDriverGetVersion");
    assert_int_equal(dlclose(library), 0);
    memcpy(&version, &function, sizeof function);
    ok(version(&number));
    assert_true(on_standin() ? number == VERSION : number >= VERSION);
}

static void find_form_follows_version(void **state) {
    static const struct {
        const char *name;
        int version;
        const char *symbol;
    } rows[] = {
        {"cuInit", 2000, "cuInit"},
        {"cuMemAlloc", 2000, "cuMemAlloc"},
        {"cuMemAlloc", 3010, "cuMemAlloc"},
        {"cuMemAlloc", 3020, "cuMemAlloc_v2"},
        {"cuMemAlloc", VERSION, "cuMemAlloc_v2"},
        {"cuCtxCreate", 2000, "cuCtxCreate"},
        {"cuCtxCreate", 3020, "cuCtxCreate_v2"},
        {"cuCtxCreate", 11040, "cuCtxCreate_v3"},
        {"cuCtxCreate", 12050, "cuCtxCreate_v4"},
        {"cuMemPrefetchAsync", 8000, "cuMemPrefetchAsync"},
        {"cuMemPrefetchAsync", 12020, "cuMemPrefetchAsync_v2"},
        {"cuStreamBeginCapture", 10000, "cuStreamBeginCapture"},
        {"cuStreamBeginCapture", 10010, "cuStreamBeginCapture_v2"},
        {"cuGetProcAddress", 11030, "cuGetProcAddress"},
        {"cuGetProcAddress", 12000, "cuGetProcAddress_v2"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_ptr_equal(found(rows[i].name, rows[i].version, CU_GET_PROC_ADDRESS_LEGACY_STREAM,
                               CU_GET_PROC_ADDRESS_SUCCESS),
                         exported(rows[i].symbol));
}

static void find_own_stream_forms_are_for_who_asks(void **state) {
    const cuuint64_t own = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    (void)state;
    assert_ptr_equal(newest("cuMemcpyAsync"), exported("cuMemcpyAsync"));
    assert_ptr_equal(found("cuMemcpyAsync", VERSION, own, CU_GET_PROC_ADDRESS_SUCCESS),
                     exported("cuMemcpyAsync_ptsz"));
    assert_ptr_equal(found("cuMemcpyHtoD", VERSION, own, CU_GET_PROC_ADDRESS_SUCCESS),
                     exported("cuMemcpyHtoD_v2_ptds"));
    assert_ptr_equal(found("cuMemPrefetchAsync", 8000, own, CU_GET_PROC_ADDRESS_SUCCESS),
                     exported("cuMemPrefetchAsync_ptsz"));
    assert_ptr_equal(found("cuMemPrefetchAsync", 12020, own, CU_GET_PROC_ADDRESS_SUCCESS),
                     exported("cuMemPrefetchAsync_v2_ptsz"));
    /* Per-thread forms exist since CUDA 7, and an older version does not get the other form. Most
     * functions have no per-thread form. */
    assert_null(found("cuMemcpyAsync", 6050, own, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT));
    assert_null(found("cuMemcpyHtoD", 6050, own, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT));
    assert_ptr_equal(found("cuMemAlloc", VERSION, own, CU_GET_PROC_ADDRESS_SUCCESS),
                     exported("cuMemAlloc_v2"));
}

static void find_what_is_not_there_is_told(void **state) {
    find_v1 v1;
    void *function = &v1;
    (void)state;
    assert_null(found("cuNoSuchThing", VERSION, 0, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND));
    assert_null(found("cuMemAlloc_v2", VERSION, 0, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND));
    assert_null(found("", VERSION, 0, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND));
    assert_null(found("cuMemAllocAsync", 11010, 0, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT));
    ok(cuGetProcAddress_v2("cuNoSuchThing", &function, VERSION, 0, NULL));
    assert_null(function);
    /* The version of CUDA 11 reports it in its result. */
    take(v1, "cuGetProcAddress");
    expect(CUDA_ERROR_NOT_FOUND, v1("cuNoSuchThing", &function, VERSION, 0));
    expect(CUDA_ERROR_NOT_FOUND, v1("cuMemAllocAsync", &function, 11010, 0));
    ok(v1("cuMemAllocAsync", &function, 11020, 0));
    assert_ptr_equal(function, exported("cuMemAllocAsync"));
}

static void find_wrong_arguments_are_refused(void **state) {
    CUdriverProcAddressQueryResult status;
    void *function;
    int version;
    (void)state;
    ok(cuDriverGetVersion(&version));
    expect(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress_v2("cuInit", &function, VERSION, 9, &status));
    expect(CUDA_ERROR_INVALID_VALUE,
           cuGetProcAddress_v2("cuInit", &function, version + 10, 0, &status));
    if (!on_standin())
        return;
    expect(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress_v2(NULL, &function, VERSION, 0, &status));
    expect(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress_v2("cuInit", NULL, VERSION, 0, &status));
}

/* A program that knows one function can look up all others, allocate and free. */
static void find_everything_through_one_function(void **state) {
    CUresult (*init)(unsigned), (*get)(CUdevice *, int), (*retain)(CUcontext *, CUdevice);
    CUresult (*current)(CUcontext), (*alloc)(CUdeviceptr *, size_t), (*dealloc)(CUdeviceptr);
    CUdevice dev;
    CUcontext ctx;
    CUdeviceptr p = 0;
    void *function;
    (void)state;
#define LOOK(pointer, name) function = newest(name), memcpy(&(pointer), &function, sizeof function)
    LOOK(init, "cuInit");
    LOOK(get, "cuDeviceGet");
    LOOK(retain, "cuDevicePrimaryCtxRetain");
    LOOK(current, "cuCtxSetCurrent");
    LOOK(alloc, "cuMemAlloc");
    LOOK(dealloc, "cuMemFree");
    ok(init(0));
    ok(get(&dev, 0));
    ok(retain(&ctx, dev));
    ok(current(ctx));
    ok(alloc(&p, 1 << 20));
    ok(dealloc(p));
    expect(CUDA_ERROR_INVALID_VALUE, dealloc(p));
    ok(cuDevicePrimaryCtxRelease(dev));
}

static void *thread_looks(void *argument) {
    void **function = argument;
    CUdriverProcAddressQueryResult status;
    return (void *)(uintptr_t)cuGetProcAddress_v2("cuMemcpyAsync", function, VERSION, 0, &status);
}

static void find_many_threads_find_the_same(void **state) {
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    void *functions[THREADS], *result;
    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, thread_looks, &functions[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &result);
        assert_null(result);
        assert_ptr_equal(functions[i], exported("cuMemcpyAsync"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(find_many_threads_find_the_same),
        cmocka_unit_test(find_library_is_the_one_that_is_loaded),
        cmocka_unit_test(find_form_follows_version),
        cmocka_unit_test(find_own_stream_forms_are_for_who_asks),
        cmocka_unit_test(find_what_is_not_there_is_told),
        cmocka_unit_test(find_wrong_arguments_are_refused),
        cmocka_unit_test(find_everything_through_one_function),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
