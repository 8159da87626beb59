/* For tests of libacre_torch.so: PyTorch's side of it, over the stand-in of libcuda.so.1.
 *
 * acre opens "cuda:0", which is the library that this program is linked with. So streams, captures
 * and graphs are made by the driver's own calls, as PyTorch makes them. */
#ifndef ACRE_TESTS_TORCH_FIXTURE_H
#define ACRE_TESTS_TORCH_FIXTURE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>

#include "support/cases.h"
#include "torch_plug.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

enum { CARD_MIB = 256 };

static inline void cu_ok(CUresult code) {
    const char *name = "?";
    if (code)
        (void)cuGetErrorName(code, &name);
    if (code)
        fail_msg("the driver returned %s", name);
}

static inline void acre_ok(acre_status status) {
    if (status)
        fail_msg("%s: %s", acre_status_name(status), acre_last_detail());
}

static inline CUstream stream_make(void) {
    CUstream stream;
    cu_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

static inline struct acre_torch_stats stats_now(void) {
    struct acre_torch_stats stats;
    acre_torch_get_stats(0, &stats);
    return stats;
}

static inline void *take(size_t bytes, CUstream stream) {
    void *p = acre_torch_alloc(bytes, 0, stream);
    assert_non_null(p);
    return p;
}

/* Work that holds a stream until the host opens it. */
struct barrier {
    _Atomic int is_open;
};

static inline void barrier_wait(void *user) {
    struct barrier *barrier = user;
    while (!atomic_load(&barrier->is_open))
        sched_yield();
}

static inline void barrier_put(struct barrier *barrier, CUstream stream) {
    atomic_store(&barrier->is_open, 0);
    cu_ok(cuLaunchHostFunc(stream, barrier_wait, barrier));
}

static inline void barrier_open(struct barrier *barrier) {
    atomic_store(&barrier->is_open, 1);
}

/* Live bytes under a tag. */
struct tag_search {
    const char *path;
    uint64_t bytes;
};

static inline int tag_look(void *user, const acre_tag_info *info) {
    struct tag_search *search = user;
    if (!strcmp(info->path, search->path))
        search->bytes = info->live_bytes;
    return 0;
}

static inline uint64_t tag_bytes(const char *path) {
    struct tag_search search = {.path = path};
    acre_ok(acre_tag_walk(tag_look, &search));
    return search.bytes;
}

/* Before the first call of the driver. */
static inline void card_begin(void) {
    CUdevice device;
    CUcontext context;
    char bytes[32];
    snprintf(bytes, sizeof bytes, "%dMiB", CARD_MIB);
    setenv("ACRE_SOFT_BYTES", bytes, 1);
    cu_ok(cuInit(0));
    cu_ok(cuDeviceGet(&device, 0));
    cu_ok(cuDevicePrimaryCtxRetain(&context, device));
    cu_ok(cuCtxSetCurrent(context));
}

#endif
