/*
 * Conformance: what the driver reports about a pointer, for every kind of memory.
 *
 * One line of cuPointerGetAttribute per kind. Addresses are printed as offsets from the pointer,
 * handles as set or none, ids only by comparison.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "conformance.h"

static void pointer_int(const char *label, CUpointer_attribute attribute, CUdeviceptr ptr) {
    uint64_t room = 0; /* more than any of these attributes writes */
    CUresult code = conf.drv->cuPointerGetAttribute(&room, attribute, ptr);
    int value;

    memcpy(&value, &room, sizeof value);
    conf_value(label, code, value);
}

static void pointer_address(const char *label, CUpointer_attribute attribute, CUdeviceptr ptr) {
    CUdeviceptr value = 0;
    CUresult code = conf.drv->cuPointerGetAttribute(&value, attribute, ptr);

    if (code == CUDA_SUCCESS && value == 0)
        conf_word(label, "none");
    else
        conf_value(label, code, (long long)(value - ptr));
}

static void pointer_bytes(const char *label, CUpointer_attribute attribute, CUdeviceptr ptr) {
    size_t value = 0;
    CUresult code = conf.drv->cuPointerGetAttribute(&value, attribute, ptr);

    conf_value(label, code, (long long)value);
}

/* Prints all attributes of one pointer. */
static void pointer_all(CUdeviceptr ptr) {
    unsigned long long id = 0;
    CUcontext ctx = NULL;
    CUresult code;

    code = conf.drv->cuPointerGetAttribute(&ctx, CU_POINTER_ATTRIBUTE_CONTEXT, ptr);
    if (code == CUDA_SUCCESS)
        conf_word("context", ctx == conf.ctx ? "ours" : ctx == NULL ? "none" : "other");
    else
        conf_code("context", code);
    pointer_int("type", CU_POINTER_ATTRIBUTE_MEMORY_TYPE, ptr);
    pointer_address("device-pointer", CU_POINTER_ATTRIBUTE_DEVICE_POINTER, ptr);
    pointer_address("host-pointer", CU_POINTER_ATTRIBUTE_HOST_POINTER, ptr);
    code = conf.drv->cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, ptr);
    conf_value("has-id", code, id != 0);
    pointer_int("managed", CU_POINTER_ATTRIBUTE_IS_MANAGED, ptr);
    pointer_int("ordinal", CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, ptr);
    pointer_int("ipc", CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, ptr);
    pointer_address("range-start", CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, ptr);
    pointer_bytes("range-bytes", CU_POINTER_ATTRIBUTE_RANGE_SIZE, ptr);
    pointer_int("mapped", CU_POINTER_ATTRIBUTE_MAPPED, ptr);
    pointer_int("handle-types", CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, ptr);
    pointer_int("rdma", CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, ptr);
    pointer_int("access", CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, ptr);
    pointer_address("pool", CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, ptr);
    pointer_bytes("mapping-bytes", CU_POINTER_ATTRIBUTE_MAPPING_SIZE, ptr);
    pointer_address("mapping-start", CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, ptr);
}

static void pointer_range(CUdeviceptr ptr) {
    CUdeviceptr base = 0;
    size_t bytes = 0;
    CUresult code = conf_code("address-range", conf.drv->cuMemGetAddressRange(&base, &bytes, ptr));

    if (code != CUDA_SUCCESS)
        return;
    conf_fact("base", (long long)(base - ptr));
    conf_fact("bytes", (long long)bytes);
}

/* ---- each kind ------------------------------------------------------------------------------- */

static void pointer_plain(void) {
    CUipcMemHandle handle;
    CUdeviceptr ptr = 0;

    if (conf_need("alloc", conf.drv->cuMemAlloc(&ptr, 3 << 20)) != 0)
        return;
    pointer_all(ptr + 256);
    pointer_range(ptr + 256);
    conf_code("ipc-handle", conf.drv->cuIpcGetMemHandle(&handle, ptr));
    conf_code("ipc-interior", conf.drv->cuIpcGetMemHandle(&handle, ptr + 256));
    conf_need("free", conf.drv->cuMemFree(ptr));
}

static void pointer_host(void) {
    CUipcMemHandle handle;
    void *host = NULL;

    if (conf_need("alloc", conf.drv->cuMemHostAlloc(&host, 1 << 20, 0)) != 0)
        return;
    pointer_all((CUdeviceptr)(uintptr_t)host + 256);
    pointer_range((CUdeviceptr)(uintptr_t)host + 256);
    conf_code("ipc-handle", conf.drv->cuIpcGetMemHandle(&handle, (CUdeviceptr)(uintptr_t)host));
    conf_need("free", conf.drv->cuMemFreeHost(host));
}

static void pointer_registered(void) {
    const size_t bytes = 1 << 20;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        return;
    memset(memory, 1, bytes);
    if (conf_need("register", conf.drv->cuMemHostRegister(memory, bytes, 0)) == 0) {
        pointer_all((CUdeviceptr)(uintptr_t)memory + 256);
        pointer_range((CUdeviceptr)(uintptr_t)memory + 256);
        conf_need("unregister", conf.drv->cuMemHostUnregister(memory));
    }
    munmap(memory, bytes);
}

static void pointer_managed(void) {
    CUipcMemHandle handle;
    CUdeviceptr ptr = 0;

    if (conf_need("alloc", conf.drv->cuMemAllocManaged(&ptr, 1 << 20, CU_MEM_ATTACH_GLOBAL)) != 0)
        return;
    pointer_all(ptr + 256);
    pointer_range(ptr + 256);
    conf_code("ipc-handle", conf.drv->cuIpcGetMemHandle(&handle, ptr));
    conf_need("free", conf.drv->cuMemFree(ptr));
}

static void pointer_by_hand(void) {
    CUipcMemHandle handle;
    struct conf_range range;

    if (conf_range_make(&range, 4, 2, conf.chunk_bytes) != 0)
        return;
    pointer_all(range.base + conf.chunk_bytes + 256);
    pointer_range(range.base + conf.chunk_bytes + 256);
    conf_code("ipc-handle", conf.drv->cuIpcGetMemHandle(&handle, range.base));
    conf_range_drop(&range);
}

static void pointer_by_hand_hole(void) {
    struct conf_range range;

    if (conf_range_make(&range, 4, 2, conf.chunk_bytes) != 0)
        return;
    pointer_all(range.base + 2 * conf.chunk_bytes + 256);
    pointer_range(range.base + 2 * conf.chunk_bytes + 256);
    conf_range_drop(&range);
}

/* Mapped without access, shareable, and requested to be accessible to other PCI devices. */
static void pointer_by_hand_closed(void) {
    CUmemAllocationProp prop = conf_prop();
    struct conf_range range;

    if (conf_range_make(&range, 2, 0, conf.chunk_bytes) != 0)
        return;
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    prop.allocFlags.gpuDirectRDMACapable = 1;
    if (conf_need("create", conf.drv->cuMemCreate(&range.handle[0], conf.chunk_bytes, &prop, 0)) ==
            0 &&
        conf_need("map", conf.drv->cuMemMap(range.base, conf.chunk_bytes, 0, range.handle[0], 0)) ==
            0) {
        range.count = 1;
        pointer_all(range.base + 256);
        pointer_range(range.base + 256);
    }
    conf_range_drop(&range);
}

static void pointer_by_hand_host(void) {
    CUmemAllocationProp prop = conf_prop_host();
    CUmemAccessDesc desc[2] = {{conf_here(), CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
                               {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
    struct conf_range range;
    CUdeviceptr base = 0;
    size_t bytes = 0;

    if (conf_range_make(&range, 2, 0, conf.chunk_bytes) != 0)
        return;
    if (conf_need("create", conf.drv->cuMemCreate(&range.handle[0], conf.chunk_bytes, &prop, 0)) ==
            0 &&
        conf_need("map", conf.drv->cuMemMap(range.base, conf.chunk_bytes, 0, range.handle[0], 0)) ==
            0) {
        range.count = 1;
        conf_code("access", conf.drv->cuMemSetAccess(range.base, conf.chunk_bytes, desc, 2));
        pointer_all(range.base + 256);
        /* The driver returns an internal address as the base, a different one each time. */
        conf_code("address-range", conf.drv->cuMemGetAddressRange(&base, &bytes, range.base + 256));
        conf_fact("bytes", (long long)bytes);
    }
    conf_range_drop(&range);
}

static void pointer_pageable(void) {
    char *memory = malloc(4096);

    if (memory == NULL)
        return;
    pointer_all((CUdeviceptr)(uintptr_t)memory);
    pointer_range((CUdeviceptr)(uintptr_t)memory);
    free(memory);
}

static void pointer_null(void) {
    pointer_all(0);
    pointer_range(0);
}

static void pointer_freed(void) {
    CUdeviceptr ptr = 0;

    if (conf_need("alloc", conf.drv->cuMemAlloc(&ptr, 8 << 20)) != 0)
        return;
    conf_need("free", conf.drv->cuMemFree(ptr));
    pointer_all(ptr);
}

/* ---- ids, several attributes at once, setting ------------------------------------------------ */

static unsigned long long pointer_id(CUdeviceptr ptr) {
    unsigned long long id = 0;

    conf_need("id", conf.drv->cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, ptr));
    return id;
}

static void pointer_ids(void) {
    CUdeviceptr first = 0, second = 0;
    unsigned long long old;
    struct conf_range range;

    if (conf_need("alloc", conf.drv->cuMemAlloc(&first, 8192)) != 0 ||
        conf_need("alloc", conf.drv->cuMemAlloc(&second, 8192)) != 0 ||
        conf_range_make(&range, 2, 2, conf.chunk_bytes) != 0)
        return;
    conf_fact("stable", pointer_id(first) == pointer_id(first + 4096));
    conf_fact("allocations-differ", pointer_id(first) != pointer_id(second));
    conf_fact("chunks-differ", pointer_id(range.base) != pointer_id(range.base + conf.chunk_bytes));
    old = pointer_id(first);
    conf_need("free", conf.drv->cuMemFree(first));
    conf_need("alloc", conf.drv->cuMemAlloc(&first, 8192));
    conf_fact("new-allocation-new-id", pointer_id(first) != old);
    conf_need("free", conf.drv->cuMemFree(first));
    conf_need("free", conf.drv->cuMemFree(second));
    conf_range_drop(&range);
}

static void pointer_plural(void) {
    CUpointer_attribute attributes[3] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                         CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                         CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    unsigned int type = 99;
    CUdeviceptr ptr = 0, device = 1;
    size_t bytes = 1;
    void *data[3] = {&type, &device, &bytes};
    int local = 0;

    if (conf_need("alloc", conf.drv->cuMemAlloc(&ptr, 1 << 20)) != 0)
        return;
    conf_code("three", conf.drv->cuPointerGetAttributes(3, attributes, data, ptr));
    conf_fact("type", type);
    conf_fact("same-pointer", device == ptr);
    conf_fact("bytes", (long long)bytes);
    conf_code("foreign", conf.drv->cuPointerGetAttributes(3, attributes, data,
                                                          (CUdeviceptr)(uintptr_t)&local));
    conf_fact("type", type);
    conf_fact("pointer-null", device == 0);
    conf_fact("bytes", (long long)bytes);
    conf_code("null", conf.drv->cuPointerGetAttributes(3, attributes, data, 0));
    conf_code("none", conf.drv->cuPointerGetAttributes(0, attributes, data, ptr));
    attributes[1] = (CUpointer_attribute)9999;
    conf_code("unknown", conf.drv->cuPointerGetAttributes(3, attributes, data, ptr));
    conf_code("unknown-alone",
              conf.drv->cuPointerGetAttribute(&type, (CUpointer_attribute)9999, ptr));
    conf_need("free", conf.drv->cuMemFree(ptr));
}

static void pointer_set(void) {
    CUdeviceptr ptr = 0;
    unsigned int on = 1, off = 0;
    struct conf_range range;

    if (conf_need("alloc", conf.drv->cuMemAlloc(&ptr, 4096)) != 0)
        return;
    conf_code("sync-on",
              conf.drv->cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, ptr));
    pointer_int("sync", CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, ptr);
    conf_code("sync-off",
              conf.drv->cuPointerSetAttribute(&off, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, ptr));
    pointer_int("sync", CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, ptr);
    conf_code("type", conf.drv->cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, ptr));
    conf_code("null", conf.drv->cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, 0));
    conf_need("free", conf.drv->cuMemFree(ptr));
    if (conf_range_make(&range, 1, 1, conf.chunk_bytes) != 0)
        return;
    conf_code("by-hand",
              conf.drv->cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, range.base));
    conf_range_drop(&range);
}

/* ---- attributes that are true or false ------------------------------------------------------ */

enum { POINTER_FLAGS = 5 };
static const struct {
    const char *label;
    CUpointer_attribute attribute;
} pointer_flag[POINTER_FLAGS] = {
    {"managed", CU_POINTER_ATTRIBUTE_IS_MANAGED},
    {"sync", CU_POINTER_ATTRIBUTE_SYNC_MEMOPS},
    {"mapped", CU_POINTER_ATTRIBUTE_MAPPED},
    {"ipc", CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE},
    {"rdma", CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE},
};

/* Room for a flag, with the word after it. Both are filled before the query. */
struct pointer_room {
    uint32_t value, beyond;
};

static void pointer_flag_value(const char *label, CUresult code, const struct pointer_room *room) {
    conf_value(label, code, room->value);
    if (room->beyond != 0xa5a5a5a5)
        conf_word(label, "wrote-beyond");
}

/* Prints all 4 bytes of every flag, asked one by one and together. */
static void pointer_flags_of(CUdeviceptr ptr) {
    struct pointer_room room[POINTER_FLAGS];
    CUpointer_attribute attributes[POINTER_FLAGS];
    void *data[POINTER_FLAGS];
    CUresult code;
    int i;

    memset(room, 0xa5, sizeof room);
    for (i = 0; i < POINTER_FLAGS; i++) {
        code = conf.drv->cuPointerGetAttribute(&room[i], pointer_flag[i].attribute, ptr);
        pointer_flag_value(pointer_flag[i].label, code, &room[i]);
    }
    memset(room, 0xa5, sizeof room);
    for (i = 0; i < POINTER_FLAGS; i++) {
        attributes[i] = pointer_flag[i].attribute;
        data[i] = &room[i];
    }
    code =
        conf_code("plural", conf.drv->cuPointerGetAttributes(POINTER_FLAGS, attributes, data, ptr));
    for (i = 0; i < POINTER_FLAGS; i++)
        pointer_flag_value(pointer_flag[i].label, code, &room[i]);
}

static void pointer_flags(void) {
    CUdeviceptr ptr = 0;
    unsigned int on = 1;

    if (conf_need("alloc", conf.drv->cuMemAlloc(&ptr, 4096)) != 0)
        return;
    conf_need("set", conf.drv->cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, ptr));
    pointer_flags_of(ptr);
    conf_need("free", conf.drv->cuMemFree(ptr));
}

static const struct conf_case pointer_cases[] = {
    {"plain", pointer_plain, 0},
    {"host", pointer_host, 0},
    {"registered", pointer_registered, 0},
    {"managed", pointer_managed, 0},
    {"by-hand", pointer_by_hand, 0},
    {"by-hand-hole", pointer_by_hand_hole, 0},
    {"by-hand-closed", pointer_by_hand_closed, 0},
    {"by-hand-host", pointer_by_hand_host, 0},
    {"pageable", pointer_pageable, 0},
    {"null", pointer_null, 0},
    {"freed", pointer_freed, 0},
    {"ids", pointer_ids, 0},
    {"plural", pointer_plural, 0},
    {"set", pointer_set, 0},
    {"flags", pointer_flags, 0},
};
CONF_GROUP(pointer, 0);
