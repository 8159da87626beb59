/* Why the driver refused a free, a copy or a fill, from what the ledger knows about the address;
 * see ledger.h. The driver returns a code only. */
#include <inttypes.h>
#include <stdio.h>

#include "ledger.h"

enum { WHY_PLACE = 128, WHY_FROM = 320, WHY_SIZE = 32 };

static const struct acre__driver *why_inner; /* set once, before any thread sees the table */

/* Formats "4096 bytes from cudaMalloc, called at program+0x11d8". */
static const char *why_from(const struct ledger_entry *entry, char text[WHY_FROM]) {
    char place[WHY_PLACE];
    snprintf(text, WHY_FROM, "%zu bytes from %s, called at %s", entry->bytes,
             entry->caller.call ? entry->caller.call : "a call",
             acre__record_line(entry->caller.address, place, sizeof place));
    return text;
}

/* Says who ended the entry. `what` names the mistake. */
static void why_ended(const struct ledger_entry *entry, const char *what) {
    char from[WHY_FROM], place[WHY_PLACE];
    if (entry->is_lost)
        acre__ledger_why("%s: %s, were freed with their context", what, why_from(entry, from));
    else
        acre__ledger_why("%s: %s, were freed by %s, called at %s", what, why_from(entry, from),
                         entry->freer.call ? entry->freer.call : "a call",
                         acre__record_line(entry->freer.address, place, sizeof place));
}

void acre__ledger_why_free(uint64_t address) {
    struct ledger_entry entry;
    char from[WHY_FROM];
    if (!address)
        return;
    if (!acre__ledger_find(address, &entry))
        acre__ledger_why("invalid free: 0x%" PRIx64 " is not an address of CUDA's memory", address);
    else if (entry.is_freed || entry.is_lost)
        why_ended(&entry, "double free");
    else if (entry.node.key != address)
        acre__ledger_why("invalid free: 0x%" PRIx64 " is byte %" PRIu64 " of %s", address,
                         address - entry.node.key, why_from(&entry, from));
    else
        acre__ledger_why("wrong kind of free: 0x%" PRIx64 " has %s", address,
                         why_from(&entry, from));
}

void acre__ledger_why_access(uint64_t address, size_t bytes) {
    struct ledger_entry entry;
    char from[WHY_FROM];
    if (!acre__ledger_find(address, &entry))
        return;
    uint64_t offset = address - entry.node.key;
    if (entry.is_freed || entry.is_lost)
        why_ended(&entry, "use after free");
    else if (bytes > entry.bytes - offset)
        acre__ledger_why("out of bounds: %zu bytes at byte %" PRIu64 " of %s", bytes, offset,
                         why_from(&entry, from));
}

void acre__ledger_why_memory(size_t bytes) {
    size_t available = 0, total = 0;
    char wanted[WHY_SIZE], left[WHY_SIZE], all[WHY_SIZE];
    /* Below fault injection: the query must not fail in turn. */
    if (!bytes || acre__ledger_driver()->cuMemGetInfo(&available, &total) != CUDA_SUCCESS)
        return;
    acre__ledger_why(
        "out of memory: %s requested, %s of %s free", acre__run_bytes(bytes, wanted, WHY_SIZE),
        acre__run_bytes(available, left, WHY_SIZE), acre__run_bytes(total, all, WHY_SIZE));
}

/* ---- copies and fills ---- */

static CUresult why_copy(CUresult result, uint64_t dst, uint64_t src, size_t bytes) {
    if (result == CUDA_ERROR_INVALID_VALUE) {
        acre__ledger_why_access(dst, bytes);
        acre__ledger_why_access(src, bytes);
    }
    return result;
}

static CUresult why_fill(CUresult result, uint64_t dst, size_t count, size_t unit_bytes) {
    if (result == CUDA_ERROR_INVALID_VALUE)
        acre__ledger_why_access(dst, count > SIZE_MAX / unit_bytes ? SIZE_MAX : count * unit_bytes);
    return result;
}

/* Returns the bytes from the first byte of the first row to the last byte of the last row. */
static size_t why_rows(size_t width_bytes, size_t rows, size_t pitch_bytes) {
    if (!rows || !width_bytes)
        return 0;
    if (pitch_bytes && rows - 1 > (SIZE_MAX - width_bytes) / pitch_bytes)
        return SIZE_MAX;
    return (rows - 1) * pitch_bytes + width_bytes;
}

static CUresult why_copy2d(CUresult result, const CUDA_MEMCPY2D *copy) {
    if (result != CUDA_ERROR_INVALID_VALUE || !copy)
        return result;
    uint64_t dst =
        copy->dstMemoryType == CU_MEMORYTYPE_HOST ? (uintptr_t)copy->dstHost : copy->dstDevice;
    uint64_t src =
        copy->srcMemoryType == CU_MEMORYTYPE_HOST ? (uintptr_t)copy->srcHost : copy->srcDevice;
    acre__ledger_why_access(dst + copy->dstY * copy->dstPitch + copy->dstXInBytes,
                            why_rows(copy->WidthInBytes, copy->Height, copy->dstPitch));
    acre__ledger_why_access(src + copy->srcY * copy->srcPitch + copy->srcXInBytes,
                            why_rows(copy->WidthInBytes, copy->Height, copy->srcPitch));
    return result;
}

/* X(name, explanation, params, args), as in driver_list.h. */
/* clang-format off */
#define WHY_COPY why_copy(result, (uintptr_t)dst, (uintptr_t)src, bytes)
#define WHY_FILL(unit_bytes) why_fill(result, dst, count, unit_bytes)
#define WHY_LIST(X)                                                                                \
    X(cuMemcpy, WHY_COPY, (CUdeviceptr dst, CUdeviceptr src, size_t bytes), (dst, src, bytes))     \
    X(cuMemcpyAsync, WHY_COPY, (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream),  \
      (dst, src, bytes, stream))                                                                   \
    X(cuMemcpyHtoD, WHY_COPY, (CUdeviceptr dst, const void *src, size_t bytes), (dst, src, bytes)) \
    X(cuMemcpyDtoH, WHY_COPY, (void *dst, CUdeviceptr src, size_t bytes), (dst, src, bytes))       \
    X(cuMemcpyDtoD, WHY_COPY, (CUdeviceptr dst, CUdeviceptr src, size_t bytes), (dst, src, bytes)) \
    X(cuMemcpyHtoDAsync, WHY_COPY,                                                                 \
      (CUdeviceptr dst, const void *src, size_t bytes, CUstream stream),                           \
      (dst, src, bytes, stream))                                                                   \
    X(cuMemcpyDtoHAsync, WHY_COPY, (void *dst, CUdeviceptr src, size_t bytes, CUstream stream),    \
      (dst, src, bytes, stream))                                                                   \
    X(cuMemcpyDtoDAsync, WHY_COPY,                                                                 \
      (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream),                           \
      (dst, src, bytes, stream))                                                                   \
    X(cuMemcpyPeer, WHY_COPY,                                                                      \
      (CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx, size_t bytes),      \
      (dst, dst_ctx, src, src_ctx, bytes))                                                         \
    X(cuMemcpyPeerAsync, WHY_COPY,                                                                 \
      (CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx, size_t bytes,       \
       CUstream stream), (dst, dst_ctx, src, src_ctx, bytes, stream))                              \
    X(cuMemcpy2D, why_copy2d(result, copy), (const CUDA_MEMCPY2D *copy), (copy))                   \
    X(cuMemcpy2DUnaligned, why_copy2d(result, copy), (const CUDA_MEMCPY2D *copy), (copy))          \
    X(cuMemcpy2DAsync, why_copy2d(result, copy), (const CUDA_MEMCPY2D *copy, CUstream stream),     \
      (copy, stream))                                                                              \
    X(cuMemsetD8, WHY_FILL(1), (CUdeviceptr dst, unsigned char value, size_t count),               \
      (dst, value, count))                                                                         \
    X(cuMemsetD8Async, WHY_FILL(1),                                                                \
      (CUdeviceptr dst, unsigned char value, size_t count, CUstream stream),                       \
      (dst, value, count, stream))                                                                 \
    X(cuMemsetD16, WHY_FILL(2), (CUdeviceptr dst, unsigned short value, size_t count),             \
      (dst, value, count))                                                                         \
    X(cuMemsetD16Async, WHY_FILL(2),                                                               \
      (CUdeviceptr dst, unsigned short value, size_t count, CUstream stream),                      \
      (dst, value, count, stream))                                                                 \
    X(cuMemsetD32, WHY_FILL(4), (CUdeviceptr dst, unsigned int value, size_t count),               \
      (dst, value, count))                                                                         \
    X(cuMemsetD32Async, WHY_FILL(4),                                                               \
      (CUdeviceptr dst, unsigned int value, size_t count, CUstream stream),                        \
      (dst, value, count, stream))
/* clang-format on */

#define WHY_CALL(name, explanation, params, args)                                                  \
    static CUresult why_##name params {                                                            \
        CUresult result = why_inner->name args;                                                    \
        return result ? explanation : result;                                                      \
    }
WHY_LIST(WHY_CALL)
#undef WHY_CALL

void acre__ledger_why_wrap(struct acre__driver *table, const struct acre__driver *inner) {
    why_inner = inner;
#define WHY_REPLACE(name, explanation, params, args) table->name = why_##name;
    WHY_LIST(WHY_REPLACE)
#undef WHY_REPLACE
}
