/* The ledger's wrappers of the calls that allocate and free memory; see ledger.h. Each calls the
 * inner function of the same name and records the result. */
#include "ledger.h"

static const struct acre__driver *calls_inner; /* set once, before any thread sees the table */

/* Records the allocation of a call, or its failure. An allocation of 0 bytes may return NULL, which
 * has no entry. */
static CUresult calls_note(enum run_kind kind, CUresult result, uint64_t key, size_t bytes) {
    if (result)
        acre__ledger_refuse(kind);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        acre__ledger_request(kind, bytes);
        acre__ledger_why_memory(bytes);
    } else if (!result && key) {
        acre__ledger_add(kind, key, bytes);
    }
    return result;
}

/* Ends an entry that was taken for a free, or puts it back and explains why the driver refused the
 * free. On a lost device no free succeeds: the program has done its part, so the entry ends. */
static CUresult calls_freed(enum run_kind kind, uint64_t key, struct ledger_entry *entry,
                            CUresult result) {
    acre__ledger_settle(kind, key, entry, result == CUDA_ERROR_LAUNCH_FAILED ? 0 : result);
    if (result == CUDA_ERROR_INVALID_VALUE)
        acre__ledger_why_free(key);
    return result;
}

/* ---- memory ---- */

static CUresult calls_cuMemAlloc(CUdeviceptr *ptr_out, size_t bytes) {
    CUresult result = calls_inner->cuMemAlloc(ptr_out, bytes);
    return calls_note(RUN_DEVICE, result, result ? 0 : *ptr_out, bytes);
}

static CUresult calls_cuMemAllocPitch(CUdeviceptr *ptr_out, size_t *pitch_out, size_t width_bytes,
                                      size_t rows, unsigned int element_bytes) {
    CUresult result =
        calls_inner->cuMemAllocPitch(ptr_out, pitch_out, width_bytes, rows, element_bytes);
    return result ? calls_note(RUN_DEVICE, result, 0, 0)
                  : calls_note(RUN_DEVICE, result, *ptr_out, *pitch_out * rows);
}

static CUresult calls_cuMemAllocManaged(CUdeviceptr *ptr_out, size_t bytes, unsigned int flags) {
    CUresult result = calls_inner->cuMemAllocManaged(ptr_out, bytes, flags);
    return calls_note(RUN_MANAGED, result, result ? 0 : *ptr_out, bytes);
}

/* In a capture the memory belongs to the graph, which may allocate and free it many times. So the
 * ledger does not count it. */
static CUresult calls_note_ordered(CUresult result, const CUdeviceptr *ptr, size_t bytes,
                                   CUstream stream) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (!result && !acre__ledger_driver()->cuStreamIsCapturing(stream, &status) &&
        status != CU_STREAM_CAPTURE_STATUS_NONE)
        return result;
    return calls_note(RUN_ORDERED, result, result ? 0 : *ptr, bytes);
}

static CUresult calls_cuMemAllocAsync(CUdeviceptr *ptr_out, size_t bytes, CUstream stream) {
    CUresult result = calls_inner->cuMemAllocAsync(ptr_out, bytes, stream);
    return calls_note_ordered(result, ptr_out, bytes, stream);
}

static CUresult calls_cuMemAllocFromPoolAsync(CUdeviceptr *ptr_out, size_t bytes, CUmemoryPool pool,
                                              CUstream stream) {
    CUresult result = calls_inner->cuMemAllocFromPoolAsync(ptr_out, bytes, pool, stream);
    return calls_note_ordered(result, ptr_out, bytes, stream);
}

static CUresult calls_cuMemFree(CUdeviceptr ptr) {
    struct ledger_entry *entry = acre__ledger_take(RUN_DEVICE, ptr);
    CUresult result = calls_inner->cuMemFree(ptr);
    return calls_freed(RUN_DEVICE, ptr, entry, result);
}

static CUresult calls_cuMemFreeAsync(CUdeviceptr ptr, CUstream stream) {
    struct ledger_entry *entry = acre__ledger_take(RUN_ORDERED, ptr);
    CUresult result = calls_inner->cuMemFreeAsync(ptr, stream);
    return calls_freed(RUN_ORDERED, ptr, entry, result);
}

static CUresult calls_cuMemHostAlloc(void **ptr_out, size_t bytes, unsigned int flags) {
    CUresult result = calls_inner->cuMemHostAlloc(ptr_out, bytes, flags);
    return calls_note(RUN_PINNED, result, result ? 0 : (uintptr_t)*ptr_out, bytes);
}

static CUresult calls_cuMemAllocHost(void **ptr_out, size_t bytes) {
    CUresult result = calls_inner->cuMemAllocHost(ptr_out, bytes);
    return calls_note(RUN_PINNED, result, result ? 0 : (uintptr_t)*ptr_out, bytes);
}

static CUresult calls_cuMemFreeHost(void *p) {
    struct ledger_entry *entry = acre__ledger_take(RUN_PINNED, (uintptr_t)p);
    CUresult result = calls_inner->cuMemFreeHost(p);
    return calls_freed(RUN_PINNED, (uintptr_t)p, entry, result);
}

static CUresult calls_cuMemHostRegister(void *p, size_t bytes, unsigned int flags) {
    CUresult result = calls_inner->cuMemHostRegister(p, bytes, flags);
    return calls_note(RUN_REGISTERED, result, (uintptr_t)p, bytes);
}

static CUresult calls_cuMemHostUnregister(void *p) {
    struct ledger_entry *entry = acre__ledger_take(RUN_REGISTERED, (uintptr_t)p);
    CUresult result = calls_inner->cuMemHostUnregister(p);
    return calls_freed(RUN_REGISTERED, (uintptr_t)p, entry, result);
}

/* ---- pools ---- */

static CUresult calls_cuMemPoolCreate(CUmemoryPool *pool_out, const CUmemPoolProps *props) {
    CUresult result = calls_inner->cuMemPoolCreate(pool_out, props);
    return calls_note(RUN_POOL, result, result ? 0 : (uintptr_t)*pool_out, 0);
}

static CUresult calls_cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *shareable,
                                                         CUmemAllocationHandleType type,
                                                         unsigned long long flags) {
    CUresult result =
        calls_inner->cuMemPoolImportFromShareableHandle(pool_out, shareable, type, flags);
    return calls_note(RUN_POOL, result, result ? 0 : (uintptr_t)*pool_out, 0);
}

static CUresult calls_cuMemPoolDestroy(CUmemoryPool pool) {
    struct ledger_entry *entry = acre__ledger_take(RUN_POOL, (uintptr_t)pool);
    CUresult result = calls_inner->cuMemPoolDestroy(pool);
    acre__ledger_settle(RUN_POOL, (uintptr_t)pool, entry, result);
    return result;
}

/* Memory of another process. The exported data does not tell its size, so the driver is queried. */
static CUresult calls_cuMemPoolImportPointer(CUdeviceptr *ptr_out, CUmemoryPool pool,
                                             CUmemPoolPtrExportData *data) {
    size_t bytes = 0;
    CUresult result = calls_inner->cuMemPoolImportPointer(ptr_out, pool, data);
    if (!result && acre__ledger_driver()->cuMemGetAddressRange(NULL, &bytes, *ptr_out))
        bytes = 0;
    return calls_note(RUN_ORDERED, result, result ? 0 : *ptr_out, bytes);
}

/* ---- virtual memory management ---- */

static CUresult calls_cuMemAddressReserve(CUdeviceptr *ptr_out, size_t bytes, size_t alignment,
                                          CUdeviceptr hint, unsigned long long flags) {
    CUresult result = calls_inner->cuMemAddressReserve(ptr_out, bytes, alignment, hint, flags);
    return calls_note(RUN_ADDRESSES, result, result ? 0 : *ptr_out, bytes);
}

static CUresult calls_cuMemAddressFree(CUdeviceptr ptr, size_t bytes) {
    struct ledger_entry *entry = acre__ledger_take(RUN_ADDRESSES, ptr);
    CUresult result = calls_inner->cuMemAddressFree(ptr, bytes);
    return calls_freed(RUN_ADDRESSES, ptr, entry, result);
}

static CUresult calls_cuMemCreate(CUmemGenericAllocationHandle *handle_out, size_t bytes,
                                  const CUmemAllocationProp *prop, unsigned long long flags) {
    CUresult result = calls_inner->cuMemCreate(handle_out, bytes, prop, flags);
    return calls_note(RUN_CHUNK, result, result ? 0 : *handle_out, bytes);
}

/* The bytes belong to another process, so they are not counted. */
static CUresult calls_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle_out,
                                                     void *os_handle,
                                                     CUmemAllocationHandleType type) {
    CUresult result = calls_inner->cuMemImportFromShareableHandle(handle_out, os_handle, type);
    return calls_note(RUN_CHUNK, result, result ? 0 : *handle_out, 0);
}

static CUresult calls_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle_out,
                                                  void *address) {
    CUresult result = calls_inner->cuMemRetainAllocationHandle(handle_out, address);
    if (!result)
        acre__ledger_add_handle(*handle_out, (uintptr_t)address);
    return result;
}

static CUresult calls_cuMemRelease(CUmemGenericAllocationHandle handle) {
    CUresult result = calls_inner->cuMemRelease(handle);
    if (!result)
        acre__ledger_drop_handle(handle);
    return result;
}

static CUresult calls_cuMemMap(CUdeviceptr ptr, size_t bytes, size_t offset,
                               CUmemGenericAllocationHandle handle, unsigned long long flags) {
    CUresult result = calls_inner->cuMemMap(ptr, bytes, offset, handle, flags);
    if (result)
        acre__ledger_refuse(RUN_MAPPED);
    else
        acre__ledger_add_mapping(ptr, bytes, handle);
    return result;
}

static CUresult calls_cuMemUnmap(CUdeviceptr ptr, size_t bytes) {
    struct ledger_entry *list = acre__ledger_take_mappings(ptr, bytes);
    CUresult result = calls_inner->cuMemUnmap(ptr, bytes);
    acre__ledger_settle_mappings(ptr, bytes, list, result);
    return result;
}

/* ---- destroying contexts ---- */

static CUresult calls_ended(CUresult result) {
    acre__ledger_ended(acre__ledger_driver(), result); /* bypasses fault injection */
    return result;
}

static CUresult calls_cuCtxDestroy(CUcontext ctx) {
    acre__ledger_ending();
    return calls_ended(calls_inner->cuCtxDestroy(ctx));
}

static CUresult calls_cuDevicePrimaryCtxRelease(CUdevice dev) {
    acre__ledger_ending();
    return calls_ended(calls_inner->cuDevicePrimaryCtxRelease(dev));
}

static CUresult calls_cuDevicePrimaryCtxReset(CUdevice dev) {
    acre__ledger_ending();
    return calls_ended(calls_inner->cuDevicePrimaryCtxReset(dev));
}

/* ---- the table ---- */

#define CALLS_LIST(X)                                                                              \
    X(cuMemAlloc)                                                                                  \
    X(cuMemAllocPitch)                                                                             \
    X(cuMemAllocManaged)                                                                           \
    X(cuMemAllocAsync)                                                                             \
    X(cuMemAllocFromPoolAsync)                                                                     \
    X(cuMemFree)                                                                                   \
    X(cuMemFreeAsync)                                                                              \
    X(cuMemHostAlloc)                                                                              \
    X(cuMemAllocHost)                                                                              \
    X(cuMemFreeHost)                                                                               \
    X(cuMemHostRegister)                                                                           \
    X(cuMemHostUnregister)                                                                         \
    X(cuMemPoolCreate)                                                                             \
    X(cuMemPoolImportFromShareableHandle)                                                          \
    X(cuMemPoolDestroy)                                                                            \
    X(cuMemPoolImportPointer)                                                                      \
    X(cuMemAddressReserve)                                                                         \
    X(cuMemAddressFree)                                                                            \
    X(cuMemCreate)                                                                                 \
    X(cuMemImportFromShareableHandle)                                                              \
    X(cuMemRetainAllocationHandle)                                                                 \
    X(cuMemRelease)                                                                                \
    X(cuMemMap)                                                                                    \
    X(cuMemUnmap)                                                                                  \
    X(cuCtxDestroy)                                                                                \
    X(cuDevicePrimaryCtxRelease)                                                                   \
    X(cuDevicePrimaryCtxReset)

void acre__ledger_wrap(struct acre__driver *table, const struct acre__driver *inner) {
    calls_inner = inner;
    acre__ledger_why_wrap(table, inner);
#define CALLS_REPLACE(name) table->name = calls_##name;
    CALLS_LIST(CALLS_REPLACE)
#undef CALLS_REPLACE
}
