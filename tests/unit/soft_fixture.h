/* Fixture for the white-box tests of the soft driver: small devices, memory in one call, gates that
 * block a stream, bounded waits, and children that are expected to fault.
 *
 * A test starts the driver with soft_begin or with the cmocka setup soft_setup. It ends the driver
 * with soft_teardown, and must have opened all of its gates before. */
#ifndef ACRE_TESTS_UNIT_SOFT_FIXTURE_H
#define ACRE_TESTS_UNIT_SOFT_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "driver/driver.h"
#include "soft/soft_state.h"
#include "support/cases.h"
#include "support/gate.h"
#include "support/random.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)
#define CHUNK SOFT_CHUNK_BYTES

#define assert_ok(call) assert_int_equal((call), CUDA_SUCCESS)
/* The conformance suite checks the exact code. */
#define assert_refused(call) assert_int_not_equal((call), CUDA_SUCCESS)

static const struct acre__driver *drv;
static CUcontext soft_ctx[ACRE__SOFT_DEVICES_MAX];

/* ---- start and end ---- */

static inline struct acre__soft_config soft_config(uint64_t bytes, uint32_t devices) {
    return (struct acre__soft_config){
        .bytes = bytes, .devices = devices, .address_bytes = (uint64_t)1 << 30};
}

/* Starts the driver, retains every device and makes the first one current. */
static inline void soft_begin_with(const struct acre__soft_config *config) {
    drv = acre__driver_soft();
    acre__soft_reset();
    assert_int_equal(acre__soft_configure(config), ACRE_OK);
    assert_ok(drv->cuInit(0));
    for (uint32_t i = 0; i < config->devices; i++)
        assert_ok(drv->cuDevicePrimaryCtxRetain(&soft_ctx[i], (int)i));
    assert_ok(drv->cuCtxPushCurrent(soft_ctx[0]));
}

static inline void soft_begin(uint64_t bytes, uint32_t devices) {
    struct acre__soft_config config = soft_config(bytes, devices);
    soft_begin_with(&config);
}

static inline int soft_setup(void **state) {
    (void)state;
    soft_begin(64 * MIB, 1);
    return 0;
}

/* Releases every context that is still retained, then resets the driver. */
static inline int soft_teardown(void **state) {
    (void)state;
    CUcontext top;
    while (drv->cuCtxPopCurrent(&top) == CUDA_SUCCESS)
        ;
    for (int i = 0; i < ACRE__SOFT_DEVICES_MAX; i++)
        while (drv->cuDevicePrimaryCtxRelease(i) == CUDA_SUCCESS)
            ;
    acre__soft_reset();
    return 0;
}

#define SOFT_TEST(name) TEST_WITH(name, soft_setup, soft_teardown)
/* For tests that call soft_begin themselves. */
#define SOFT_TEST_BARE(name) TEST_WITH(name, NULL, soft_teardown)

/* ---- memory ---- */

static inline CUmemAllocationProp soft_prop(int device) {
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                 .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
}

static inline CUmemGenericAllocationHandle soft_chunk(size_t bytes, int device) {
    CUmemAllocationProp prop = soft_prop(device);
    CUmemGenericAllocationHandle handle = 0;
    assert_ok(drv->cuMemCreate(&handle, bytes, &prop, 0));
    return handle;
}

static inline CUdeviceptr soft_reserve(size_t bytes) {
    CUdeviceptr at = 0;
    assert_ok(drv->cuMemAddressReserve(&at, bytes, 0, 0, 0));
    return at;
}

static inline CUresult soft_access(CUdeviceptr at, size_t bytes, int device, unsigned flags) {
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, device}, (CUmemAccess_flags)flags};
    return drv->cuMemSetAccess(at, bytes, &access, 1);
}

/* Maps the chunk at the address, for reading and writing by the device. */
static inline void soft_map_at(CUdeviceptr at, CUmemGenericAllocationHandle handle, size_t bytes,
                               int device) {
    assert_ok(drv->cuMemMap(at, bytes, 0, handle, 0));
    assert_ok(soft_access(at, bytes, device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
}

/* Reserves an address range and maps the chunk there, as soft_map_at does. */
static inline CUdeviceptr soft_map(CUmemGenericAllocationHandle handle, size_t bytes, int device) {
    CUdeviceptr at = soft_reserve(bytes);
    soft_map_at(at, handle, bytes, device);
    return at;
}

/* Returns 1 if all bytes of the device memory are `value`. */
static inline int soft_is_filled(CUdeviceptr at, size_t bytes, unsigned char value) {
    unsigned char *copy = malloc(bytes);
    int is_filled = copy && drv->cuMemcpyDtoH(copy, at, bytes) == CUDA_SUCCESS;
    for (size_t i = 0; is_filled && i < bytes; i++)
        is_filled = copy[i] == value;
    free(copy);
    return is_filled;
}

/* ---- waiting ---- */

/* Waits until the condition is true, at most PATIENCE_MS. Yields the condition's last
 * value. */
#define soft_eventually(condition)                                                                 \
    __extension__({                                                                                \
        int left_ = PATIENCE_MS;                                                                   \
        while (!(condition) && left_-- > 0)                                                        \
            sleep_ms(1);                                                                           \
        (condition);                                                                               \
    })

/* Returns how many threads wait for streams of device 0. */
static inline unsigned soft_waiters(void) {
    unsigned count = 0;
    acre__lock_take(&acre__soft.lock);
    for (const struct soft_stream *at = acre__soft.devices[0].ctx.streams; at; at = at->next)
        count += at->waiters;
    acre__lock_give(&acre__soft.lock);
    return count;
}

/* Queues a gate and waits until the stream reaches it. */
static inline void soft_gate_put(struct gate *gate, CUstream stream) {
    gate_close(gate);
    assert_ok(drv->cuLaunchHostFunc(stream, gate_run, gate));
    assert_true(becomes_true(&gate->is_reached));
}

/* Opens the gate. Returns when no thread uses the gate any more, since it may be on the test's
 * stack. */
static inline void soft_gate_open(struct gate *gate) {
    atomic_store(&gate->is_open, 1);
    assert_true(becomes_true(&gate->is_passed));
}

/* A host function that counts its runs. */
static inline void soft_note(void *user) {
    _Atomic int *flag = user;
    atomic_fetch_add(flag, 1);
}

static inline CUstream soft_stream(unsigned flags) {
    CUstream stream = NULL;
    assert_ok(drv->cuStreamCreate(&stream, flags));
    return stream;
}

/* Returns the number of streams of the device's primary context, including default streams and
 * destroyed ones that still have work. */
static inline size_t soft_stream_count(int device) {
    size_t count = 0;
    acre__lock_take(&acre__soft.lock);
    for (const struct soft_stream *s = acre__soft.devices[device].ctx.streams; s; s = s->next)
        count++;
    acre__lock_give(&acre__soft.lock);
    return count;
}

static inline uint64_t soft_used_bytes(int device) {
    acre__lock_take(&acre__soft.lock);
    uint64_t bytes = acre__soft.devices[device].used_bytes;
    acre__lock_give(&acre__soft.lock);
    return bytes;
}

/* ---- children ---- */

/* Returns 1 if an access to the byte kills a forked child with SIGSEGV. The child makes no driver
 * call. */
static inline int soft_faults(uint64_t address, int is_write) {
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGSEGV, SIG_DFL); /* a sanitizer may have installed a handler */
        volatile char *byte = (volatile char *)(uintptr_t)address;
        char seen = *byte;
        if (is_write)
            *byte = (char)(seen + 1);
        _exit(0);
    }
    int status = 0;
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
    assert_true(WIFSIGNALED(status) || WIFEXITED(status));
    if (WIFSIGNALED(status))
        assert_int_equal(WTERMSIG(status), SIGSEGV);
    return WIFSIGNALED(status);
}

#endif
