/*
 * Conformance: the driver's pools as objects, and pools shared between processes. conf_async.c
 * tests their stream-ordered memory.
 */
#include "conf_pool.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- pools ----------------------------------------------------------------------------------- */

static void pool_support(void) {
    int value = 0;

    conf_need("attribute", conf.drv->cuDeviceGetAttribute(
                               &value, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, conf.dev));
    conf_fact("pools", value);
    conf_need("attribute",
              conf.drv->cuDeviceGetAttribute(
                  &value, CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, conf.dev));
    conf_fact("fd", value & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
}

static void pool_create(void) {
    CUmemPoolProps props = pool_props();
    CUmemoryPool pool = NULL;

    conf_code("create", conf.drv->cuMemPoolCreate(&pool, &props));
    conf_fact("is-set", pool != NULL);
    conf_code("destroy", conf.drv->cuMemPoolDestroy(pool));
    props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    conf_code("fd", conf.drv->cuMemPoolCreate(&pool, &props));
    conf_code("destroy", conf.drv->cuMemPoolDestroy(pool));
    props = pool_props();
    props.maxSize = 64 << 20;
    conf_code("maximum", conf.drv->cuMemPoolCreate(&pool, &props));
    conf_code("destroy", conf.drv->cuMemPoolDestroy(pool));
    props = pool_props();
    conf_code("no-output", conf.drv->cuMemPoolCreate(NULL, &props));
    conf_code("no-props", conf.drv->cuMemPoolCreate(&pool, NULL));
    props.allocType = CU_MEM_ALLOCATION_TYPE_INVALID;
    conf_code("no-type", conf.drv->cuMemPoolCreate(&pool, &props));
    props = pool_props();
    props.location.type = CU_MEM_LOCATION_TYPE_INVALID;
    conf_code("no-location", conf.drv->cuMemPoolCreate(&pool, &props));
    props.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
    conf_code("numa-current", conf.drv->cuMemPoolCreate(&pool, &props));
}

/* Separate cases, since these results are less documented. */
static void pool_create_bad_device(void) {
    CUmemPoolProps props = pool_props();
    CUmemoryPool pool = NULL;

    props.location.id = 4711;
    conf_code("bad-device", conf.drv->cuMemPoolCreate(&pool, &props));
    props.location.id = -1;
    conf_code("device-minus-one", conf.drv->cuMemPoolCreate(&pool, &props));
}

static void pool_create_handle_types(void) {
    CUmemPoolProps props = pool_props();
    CUmemoryPool pool = NULL;

    props.handleTypes = CU_MEM_HANDLE_TYPE_WIN32;
    conf_code("win32", conf.drv->cuMemPoolCreate(&pool, &props));
}

/* What a program says about how it uses the pool: each of two flags. */
static void pool_create_usage(void) {
    static const char *const label[] = {"0", "1", "2", "3"};
    CUmemPoolProps props = pool_props();
    unsigned short usage;

    for (usage = 0; usage < 4; usage++) {
        CUmemoryPool pool = NULL;

        props.usage = usage;
        if (conf_code(label[usage], conf.drv->cuMemPoolCreate(&pool, &props)) == CUDA_SUCCESS)
            conf_need("destroy", conf.drv->cuMemPoolDestroy(pool));
    }
}

/* The soft device has no fabric to share over and refuses. */
static void pool_create_fabric(void) {
    CUmemPoolProps props = pool_props();
    CUmemoryPool pool = NULL;

    props.handleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
    conf_code("fabric", conf.drv->cuMemPoolCreate(&pool, &props));
    if (pool != NULL)
        conf_need("destroy", conf.drv->cuMemPoolDestroy(pool));
}

static void pool_destroy(void) {
    CUmemoryPool pool = NULL, ours = NULL;

    if (pool_make(&pool) != 0 ||
        conf_need("default", conf.drv->cuDeviceGetDefaultMemPool(&ours, conf.dev)) != 0)
        return;
    conf_code("default", conf.drv->cuMemPoolDestroy(ours));
    conf_code("null", conf.drv->cuMemPoolDestroy(NULL));
    conf_code("destroy", conf.drv->cuMemPoolDestroy(pool));
    conf_code("again", conf.drv->cuMemPoolDestroy(pool));
}

static void pool_current(void) {
    CUmemoryPool ours = NULL, current = NULL, again = NULL, pool = NULL;

    if (pool_make(&pool) != 0)
        return;
    conf_code("default", conf.drv->cuDeviceGetDefaultMemPool(&ours, conf.dev));
    conf_code("again", conf.drv->cuDeviceGetDefaultMemPool(&again, conf.dev));
    conf_fact("same", again == ours && ours != NULL);
    conf_code("current", conf.drv->cuDeviceGetMemPool(&current, conf.dev));
    conf_fact("is-default", current == ours);
    conf_code("set", conf.drv->cuDeviceSetMemPool(conf.dev, pool));
    conf_need("current", conf.drv->cuDeviceGetMemPool(&current, conf.dev));
    conf_fact("is-set", current == pool);
    conf_code("set-null", conf.drv->cuDeviceSetMemPool(conf.dev, NULL));
    conf_code("set-bad-device", conf.drv->cuDeviceSetMemPool(4711, pool));
    conf_code("default-bad-device", conf.drv->cuDeviceGetDefaultMemPool(&again, 4711));
    conf_code("current-bad-device", conf.drv->cuDeviceGetMemPool(&again, -1));
    conf_code("default-null", conf.drv->cuDeviceGetDefaultMemPool(NULL, conf.dev));
    conf_code("destroy-current", conf.drv->cuMemPoolDestroy(pool));
    conf_need("current", conf.drv->cuDeviceGetMemPool(&current, conf.dev));
    conf_fact("is-default", current == ours);
}

static void pool_attributes(void) {
    static const char *const flags[] = {"follow", "opportunistic", "internal"};
    CUmemoryPool pool = NULL;
    int i, value;

    if (pool_make(&pool) != 0)
        return;
    for (i = 0; i < 3; i++) {
        CUmemPool_attribute attribute = (CUmemPool_attribute)(i + 1);

        value = 7;
        conf_need("get", conf.drv->cuMemPoolGetAttribute(pool, attribute, &value));
        conf_fact(flags[i], value);
        conf_code("set", pool_set_flag(pool, attribute, 0));
        conf_need("get", conf.drv->cuMemPoolGetAttribute(pool, attribute, &value));
        conf_fact("is", value);
    }
    conf_fact("threshold", (long long)pool_get(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD));
    conf_code("set", pool_set(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 12345));
    conf_fact("is", (long long)pool_get(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD));
    conf_fact("used", (long long)pool_get(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
    conf_fact("used-high", (long long)pool_get(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH));
    conf_code("set-used", pool_set(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, 0));
    conf_code("set-reserved", pool_set(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, 0));
    conf_code("reset-used-high", pool_set(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0));
    conf_code("reset-reserved-high", pool_set(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 0));
    conf_code("raise-used-high", pool_set(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, 1));
    conf_code("raise-reserved-high", pool_set(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 1));
    conf_code("get-unknown",
              conf.drv->cuMemPoolGetAttribute(pool, (CUmemPool_attribute)99, &value));
    conf_code("set-unknown", pool_set(pool, (CUmemPool_attribute)99, 0));
    conf_code("get-null-pool", conf.drv->cuMemPoolGetAttribute(
                                   NULL, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &value));
    conf_code("set-null-pool", pool_set(NULL, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 0));
    conf_code("get-null", conf.drv->cuMemPoolGetAttribute(
                              pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, NULL));
    conf_need("destroy", conf.drv->cuMemPoolDestroy(pool));
}

static CUresult pool_allow(CUmemoryPool pool, CUmemLocationType type, int id, int flags) {
    CUmemAccessDesc desc = {{type, id}, (CUmemAccess_flags)flags};

    return conf.drv->cuMemPoolSetAccess(pool, &desc, 1);
}

static void pool_access(void) {
    const CUmemLocationType device = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemLocation here = conf_here();
    CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    CUmemoryPool pool = NULL;

    if (pool_make(&pool) != 0)
        return;
    conf_code("get", conf.drv->cuMemPoolGetAccess(&flags, pool, &here));
    conf_fact("flags", flags);
    conf_code("same", pool_allow(pool, device, conf.dev, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    conf_code("revoke-own", pool_allow(pool, device, conf.dev, CU_MEM_ACCESS_FLAGS_PROT_NONE));
    conf_code("bad-device", pool_allow(pool, device, 4711, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    conf_code("bad-flags", pool_allow(pool, device, conf.dev, 0xffff));
    conf_code("null-pool", pool_allow(NULL, device, conf.dev, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    conf_code("get-null-pool", conf.drv->cuMemPoolGetAccess(&flags, NULL, &here));
    here.id = 4711;
    conf_code("get-bad-device", conf.drv->cuMemPoolGetAccess(&flags, pool, &here));
    here.type = CU_MEM_LOCATION_TYPE_INVALID;
    conf_code("get-bad-location", conf.drv->cuMemPoolGetAccess(&flags, pool, &here));
    conf_need("destroy", conf.drv->cuMemPoolDestroy(pool));
}

static void pool_access_bad_location(void) {
    CUmemoryPool pool = NULL;

    if (pool_make(&pool) != 0)
        return;
    conf_code("invalid", pool_allow(pool, CU_MEM_LOCATION_TYPE_INVALID, conf.dev,
                                    CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    conf_need("destroy", conf.drv->cuMemPoolDestroy(pool));
}

static const struct conf_case pool_cases[] = {
    {"support", pool_support, 0},
    {"create", pool_create, 0},
    {"create-bad-device", pool_create_bad_device, 0},
    {"create-handle-types", pool_create_handle_types, 0},
    {"create-usage", pool_create_usage, 0},
    {"create-fabric", pool_create_fabric, CONF_CUDA},
    {"destroy", pool_destroy, CONF_ALONE},
    {"current", pool_current, 0},
    {"attributes", pool_attributes, CONF_ALONE},
    {"access", pool_access, 0},
    {"access-bad-location", pool_access_bad_location, 0},
};
CONF_GROUP(pool, 0);

/* ---- between processes ----------------------------------------------------------------------- */

static const CUmemAllocationHandleType poolshare_type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

enum { POOLSHARE_BYTES = 4 << 20, POOLSHARE_FIRST = 4711, POOLSHARE_SECOND = 815 };

/* Creates a shareable pool and a block in it, with a word written. */
static int poolshare_make(CUmemoryPool *pool, CUdeviceptr *ptr) {
    CUmemPoolProps props = pool_props();

    props.handleTypes = poolshare_type;
    return conf_need("create", conf.drv->cuMemPoolCreate(pool, &props)) != 0 ||
           conf_need("alloc",
                     conf.drv->cuMemAllocFromPoolAsync(ptr, POOLSHARE_BYTES, *pool, NULL)) != 0 ||
           conf_need("write", conf_poke(*ptr, POOLSHARE_FIRST)) != 0;
}

static void poolshare_drop(CUmemoryPool pool, CUdeviceptr ptr) {
    conf_need("free", conf.drv->cuMemFreeAsync(ptr, NULL));
    conf_need("sync", conf.drv->cuCtxSynchronize());
    conf_need("destroy", conf.drv->cuMemPoolDestroy(pool));
}

static void poolshare_export(void) {
    CUmemPoolPtrExportData data;
    CUmemoryPool pool = NULL, plain = NULL;
    CUdeviceptr ptr = 0, other = 0;
    int fd = -1, second = -1, none = -1;

    if (poolshare_make(&pool, &ptr) != 0 || pool_make(&plain) != 0)
        return;
    conf_code("export", conf.drv->cuMemPoolExportToShareableHandle(&fd, pool, poolshare_type, 0));
    conf_fact("is-fd", fd >= 0);
    conf_code("again",
              conf.drv->cuMemPoolExportToShareableHandle(&second, pool, poolshare_type, 0));
    conf_fact("another", second != fd);
    conf_code("not-asked-for",
              conf.drv->cuMemPoolExportToShareableHandle(&none, plain, poolshare_type, 0));
    conf_code("flags", conf.drv->cuMemPoolExportToShareableHandle(&none, pool, poolshare_type, 1));
    conf_code("as-nothing",
              conf.drv->cuMemPoolExportToShareableHandle(&none, pool, CU_MEM_HANDLE_TYPE_NONE, 0));
    conf_code("null-pool",
              conf.drv->cuMemPoolExportToShareableHandle(&none, NULL, poolshare_type, 0));
    conf_code("pointer", conf.drv->cuMemPoolExportPointer(&data, ptr));
    conf_code("pointer-null", conf.drv->cuMemPoolExportPointer(&data, 0));
    conf_code("pointer-no-output", conf.drv->cuMemPoolExportPointer(NULL, ptr));
    conf_need("alloc", conf.drv->cuMemAllocFromPoolAsync(&other, 4096, plain, NULL));
    conf_code("pointer-not-shared", conf.drv->cuMemPoolExportPointer(&data, other));
    close(fd);
    close(second);
    poolshare_drop(plain, other);
    poolshare_drop(pool, ptr);
}

/* Imports the pool in the process that exported it. */
static void poolshare_import_here(void) {
    CUmemPoolPtrExportData data;
    CUmemoryPool pool = NULL, imported = NULL;
    CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    CUmemLocation here = conf_here();
    CUdeviceptr ptr = 0, there = 0, none = 0;
    int fd = -1;

    if (poolshare_make(&pool, &ptr) != 0)
        return;
    conf_need("export", conf.drv->cuMemPoolExportToShareableHandle(&fd, pool, poolshare_type, 0));
    conf_code("import", conf.drv->cuMemPoolImportFromShareableHandle(
                            &imported, (void *)(intptr_t)fd, poolshare_type, 0));
    close(fd);
    conf_fact("another", imported != pool);
    conf_need("pointer", conf.drv->cuMemPoolExportPointer(&data, ptr));
    conf_code("import-pointer", conf.drv->cuMemPoolImportPointer(&there, imported, &data));
    conf_fact("read", conf_peek(there));
    conf_code("write", conf_poke(there + 4096, POOLSHARE_SECOND));
    conf_fact("read-first", conf_peek(ptr + 4096));
    conf_code("access", conf.drv->cuMemPoolGetAccess(&flags, imported, &here));
    conf_fact("flags", flags);
    conf_code("alloc", conf.drv->cuMemAllocFromPoolAsync(&none, 4096, imported, NULL));
    conf_code("set-current", conf.drv->cuDeviceSetMemPool(conf.dev, imported));
    conf_code("no-output", conf.drv->cuMemPoolImportPointer(NULL, imported, &data));
    conf_code("no-data", conf.drv->cuMemPoolImportPointer(&none, imported, NULL));
    conf_code("null-pool", conf.drv->cuMemPoolImportPointer(&none, NULL, &data));
    conf_code("free", conf.drv->cuMemFreeAsync(there, NULL));
    conf_need("sync", conf.drv->cuCtxSynchronize());
    conf_fact("still-there", conf_peek(ptr));
    conf_code("destroy", conf.drv->cuMemPoolDestroy(imported));
    poolshare_drop(pool, ptr);
}

static void poolshare_import_junk(void) {
    CUmemoryPool pool = NULL;
    int memory_fd = memfd_create("junk", MFD_CLOEXEC);

    if (memory_fd < 0 || ftruncate(memory_fd, (off_t)conf.chunk_bytes) != 0)
        conf_word("setup-file", strerror(errno));
    conf_code("as-nothing", conf.drv->cuMemPoolImportFromShareableHandle(
                                &pool, (void *)(intptr_t)memory_fd, CU_MEM_HANDLE_TYPE_NONE, 0));
    conf_code("no-output", conf.drv->cuMemPoolImportFromShareableHandle(
                               NULL, (void *)(intptr_t)memory_fd, poolshare_type, 0));
    conf_code("memory-file", conf.drv->cuMemPoolImportFromShareableHandle(
                                 &pool, (void *)(intptr_t)memory_fd, poolshare_type, 0));
    if (memory_fd >= 0)
        close(memory_fd);
}

/* Runs in the importing process. */
void conf_pool_use_elsewhere(int fd, const CUmemPoolPtrExportData *data) {
    CUmemPoolPtrExportData copy = *data;
    CUmemoryPool pool = NULL;
    CUdeviceptr ptr = 0;

    conf_code("there-import", conf.drv->cuMemPoolImportFromShareableHandle(
                                  &pool, (void *)(intptr_t)fd, poolshare_type, 0));
    close(fd);
    conf_code("there-pointer", conf.drv->cuMemPoolImportPointer(&ptr, pool, &copy));
    conf_fact("there-read", conf_peek(ptr));
    conf_code("there-write", conf_poke(ptr + 4096, POOLSHARE_SECOND));
    conf_code("there-free", conf.drv->cuMemFree(ptr));
    conf_code("there-destroy", conf.drv->cuMemPoolDestroy(pool));
}

static void poolshare_elsewhere(void) {
    struct {
        char kind;
        CUmemPoolPtrExportData data;
    } message = {.kind = CONF_SHARE_POOL};
    CUmemoryPool pool = NULL;
    CUdeviceptr ptr = 0;
    int fd = -1;

    if (poolshare_make(&pool, &ptr) != 0)
        return;
    conf_need("export", conf.drv->cuMemPoolExportToShareableHandle(&fd, pool, poolshare_type, 0));
    conf_need("pointer", conf.drv->cuMemPoolExportPointer(&message.data, ptr));
    conf_share_with_child(fd, &message, sizeof message);
    conf_fact("read", conf_peek(ptr + 4096));
    close(fd);
    poolshare_drop(pool, ptr);
}

static const struct conf_case poolshare_cases[] = {
    {"export", poolshare_export, CONF_ALONE},
    {"import-here", poolshare_import_here, CONF_ALONE},
    {"import-junk", poolshare_import_junk, CONF_ALONE},
    {"elsewhere", poolshare_elsewhere, 0},
};
CONF_GROUP(poolshare, 0);
