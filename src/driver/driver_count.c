/*
 * Counts the bytes that copies move and the calls for memory; see driver_count.h.
 *
 * The counting functions are made from one list of each, once for each slot. Order does not matter
 * to a sum that is only read to be compared with itself, so the additions are relaxed.
 *
 * Invariant: the functions of a slot are reachable only through a table whose own functions the
 * slot has. Locks: none; a slot is filled before its table is handed out.
 */
#include "driver/driver_count.h"

/* X(slot, name, parameters, arguments, bytes): `bytes` is looked at after the copy was accepted. */
#define COUNT_PLAIN (CUdeviceptr dst, CUdeviceptr src, size_t bytes)
#define COUNT_PLAIN_ASYNC (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
#define COUNT_LIST(X, slot)                                                                        \
    X(slot, cuMemcpy, COUNT_PLAIN, (dst, src, bytes), bytes)                                       \
    X(slot, cuMemcpyAsync, COUNT_PLAIN_ASYNC, (dst, src, bytes, stream), bytes)                    \
    X(slot, cuMemcpyHtoD, (CUdeviceptr dst, const void *src, size_t bytes), (dst, src, bytes),     \
      bytes)                                                                                       \
    X(slot, cuMemcpyDtoH, (void *dst, CUdeviceptr src, size_t bytes), (dst, src, bytes), bytes)    \
    X(slot, cuMemcpyDtoD, COUNT_PLAIN, (dst, src, bytes), bytes)                                   \
    X(slot, cuMemcpyHtoDAsync, (CUdeviceptr dst, const void *src, size_t bytes, CUstream stream),  \
      (dst, src, bytes, stream), bytes)                                                            \
    X(slot, cuMemcpyDtoHAsync, (void *dst, CUdeviceptr src, size_t bytes, CUstream stream),        \
      (dst, src, bytes, stream), bytes)                                                            \
    X(slot, cuMemcpyDtoDAsync, COUNT_PLAIN_ASYNC, (dst, src, bytes, stream), bytes)                \
    X(slot, cuMemcpyPeer,                                                                          \
      (CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx, size_t bytes),      \
      (dst, dst_ctx, src, src_ctx, bytes), bytes)                                                  \
    X(slot, cuMemcpyPeerAsync,                                                                     \
      (CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx, size_t bytes,       \
       CUstream stream),                                                                           \
      (dst, dst_ctx, src, src_ctx, bytes, stream), bytes)                                          \
    X(slot, cuMemcpy2D, (const CUDA_MEMCPY2D *copy), (copy), copy->WidthInBytes * copy->Height)    \
    X(slot, cuMemcpy2DUnaligned, (const CUDA_MEMCPY2D *copy), (copy),                              \
      copy->WidthInBytes * copy->Height)                                                           \
    X(slot, cuMemcpy2DAsync, (const CUDA_MEMCPY2D *copy, CUstream stream), (copy, stream),         \
      copy->WidthInBytes * copy->Height)

/* X(slot, member, name, parameters, arguments), in the order of ACRE__DRIVER_CALLS. */
#define COUNT_CALL_LIST(X, slot)                                                                   \
    X(slot, creates, cuMemCreate,                                                                  \
      (CUmemGenericAllocationHandle * handle_out, size_t bytes, const CUmemAllocationProp *prop,   \
       unsigned long long flags),                                                                  \
      (handle_out, bytes, prop, flags))                                                            \
    X(slot, maps, cuMemMap,                                                                        \
      (CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,      \
       unsigned long long flags),                                                                  \
      (address, bytes, offset, handle, flags))                                                     \
    X(slot, accesses, cuMemSetAccess,                                                              \
      (CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t count),            \
      (address, bytes, access, count))                                                             \
    X(slot, unmaps, cuMemUnmap, (CUdeviceptr address, size_t bytes), (address, bytes))             \
    X(slot, releases, cuMemRelease, (CUmemGenericAllocationHandle handle), (handle))               \
    X(slot, allocs, cuMemAlloc, (CUdeviceptr * ptr_out, size_t bytes), (ptr_out, bytes))

static struct {
    struct acre__driver own; /* the driver's functions; only those that are counted are called */
    _Atomic uint64_t bytes;
    struct acre__driver_calls calls;
} count_slots[2];

#define COUNT_FUNCTION(slot, name, params, args, moved)                                            \
    static CUresult count_##slot##_##name params {                                                 \
        CUresult code = count_slots[slot].own.name args;                                           \
                                                                                                   \
        if (code == CUDA_SUCCESS)                                                                  \
            atomic_fetch_add_explicit(&count_slots[slot].bytes, (moved), memory_order_relaxed);    \
        return code;                                                                               \
    }
COUNT_LIST(COUNT_FUNCTION, 0)
COUNT_LIST(COUNT_FUNCTION, 1)

#define COUNT_CALL_FUNCTION(slot, member, name, params, args)                                      \
    static CUresult count_##slot##_##name params {                                                 \
        atomic_fetch_add_explicit(&count_slots[slot].calls.member, 1, memory_order_relaxed);       \
        return count_slots[slot].own.name args;                                                    \
    }
COUNT_CALL_LIST(COUNT_CALL_FUNCTION, 0)
COUNT_CALL_LIST(COUNT_CALL_FUNCTION, 1)

#define COUNT_REPLACE(slot, name, params, args, moved) table->name = count_##slot##_##name;
#define COUNT_CALL_REPLACE(slot, member, name, params, args) table->name = count_##slot##_##name;

void acre__driver_count(struct acre__driver *table) {
    int slot = table->is_soft != 0;

    if (table->copied_bytes != NULL)
        return;
    count_slots[slot].own = *table;
    if (slot == 0) {
        COUNT_LIST(COUNT_REPLACE, 0)
        COUNT_CALL_LIST(COUNT_CALL_REPLACE, 0)
    } else {
        COUNT_LIST(COUNT_REPLACE, 1)
        COUNT_CALL_LIST(COUNT_CALL_REPLACE, 1)
    }
    table->copied_bytes = &count_slots[slot].bytes;
    table->calls = &count_slots[slot].calls;
}
