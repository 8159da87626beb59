/* The limit of memory from cuMemCreate, and of imported memory; see shim_limit.h. Without a limit
 * the same wrappers only count what the program has created, for `acre suspend`.
 *
 * A chunk is charged until its last handle is released and its last mapping is removed. The driver
 * does not tell the size of an imported chunk, so it is charged when it is mapped first: a chunk
 * maps whole. Handles are not used again by the driver, so records of handles change after the
 * call; mappings are taken out before it, as blocks are. */
#include <stdlib.h>

#include "shim_limit.h"
#include "shim_limit_records.h"

/* Bytes of chunks that acre did not create, with the lock held. */
static uint64_t program_bytes;

_Thread_local int acre__limit_is_acres;

static struct limit_chunk *chunk_of(struct acre__node *node) {
    return acre__tree_entry(node, struct limit_chunk, node);
}

static struct limit_block *mapping_of(struct acre__node *node) {
    return acre__tree_entry(node, struct limit_block, node);
}

/* ---- the account ---- */

static int chunk_take(uint64_t bytes) {
    return !acre__limit_is_on() || acre__limit_take(bytes);
}

static void chunk_give(uint64_t bytes) {
    if (acre__limit_is_on())
        acre__limit_give(bytes);
}

/* ---- with the lock held ---- */

static void chunk_set_bytes(struct limit_chunk *chunk, uint64_t bytes) {
    program_bytes += chunk->is_acres ? 0 : bytes - chunk->bytes;
    chunk->bytes = bytes;
}

static struct limit_chunk *chunk_find(CUmemGenericAllocationHandle handle) {
    return chunk_of(acre__tree_find(&acre__limit.chunks, handle));
}

static void chunk_end_if_unused(struct limit_chunk *chunk) {
    if (chunk->handles || chunk->mappings)
        return;
    chunk_give(chunk->bytes);
    chunk_set_bytes(chunk, 0);
    free(chunk);
}

static void chunk_insert(struct limit_chunk *chunk, CUmemGenericAllocationHandle handle) {
    chunk->node.key = handle;
    chunk->handles = 1;
    acre__tree_insert(&acre__limit.chunks, &chunk->node);
}

static void mapping_end(struct limit_block *mapping) {
    mapping->chunk->mappings--;
    chunk_end_if_unused(mapping->chunk);
    free(mapping);
}

static void mapping_add(struct limit_block *mapping) {
    struct limit_block *stale =
        mapping_of(acre__tree_find(&acre__limit.mappings, mapping->node.key));
    if (stale) {
        acre__tree_remove(&acre__limit.mappings, &stale->node);
        mapping_end(stale);
    }
    acre__tree_insert(&acre__limit.mappings, &mapping->node);
}

/* ---- chunks ---- */

/* Returns 1 if the driver is going to refuse the arguments of cuMemCreate. */
static int chunk_is_wrong(size_t bytes, const CUmemAllocationProp *prop, unsigned long long flags) {
    size_t granularity = 0;
    return flags ||
           acre__limit.inner->cuMemGetAllocationGranularity(&granularity, prop,
                                                            CU_MEM_ALLOC_GRANULARITY_MINIMUM) ||
           !granularity || bytes % granularity;
}

static CUresult chunk_cuMemCreate(CUmemGenericAllocationHandle *handle_out, size_t bytes,
                                  const CUmemAllocationProp *prop, unsigned long long flags) {
    const struct acre__driver *inner = acre__limit.inner;
    if (!handle_out || !prop || !bytes || prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        chunk_is_wrong(bytes, prop, flags))
        return inner->cuMemCreate(handle_out, bytes, prop, flags);
    struct limit_chunk *chunk = calloc(1, sizeof *chunk);
    if (!chunk || !chunk_take(bytes)) {
        free(chunk);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult result = inner->cuMemCreate(handle_out, bytes, prop, flags);
    if (result) {
        chunk_give(bytes);
        free(chunk);
        return result;
    }
    chunk->is_acres = acre__limit_is_acres;
    pthread_mutex_lock(&acre__limit.lock);
    chunk_set_bytes(chunk, bytes);
    chunk_insert(chunk, *handle_out);
    pthread_mutex_unlock(&acre__limit.lock);
    return result;
}

static CUresult chunk_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle_out,
                                                     void *os_handle,
                                                     CUmemAllocationHandleType type) {
    const struct acre__driver *inner = acre__limit.inner;
    CUmemAllocationProp prop;
    if (acre__limit_is_acres) /* counted where it was created */
        return inner->cuMemImportFromShareableHandle(handle_out, os_handle, type);
    struct limit_chunk *chunk = calloc(1, sizeof *chunk), *known;
    if (!chunk)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = inner->cuMemImportFromShareableHandle(handle_out, os_handle, type);
    if (result) {
        free(chunk);
        return result;
    }
    chunk->is_host = !inner->cuMemGetAllocationPropertiesFromHandle(&prop, *handle_out) &&
                     prop.location.type != CU_MEM_LOCATION_TYPE_DEVICE;
    pthread_mutex_lock(&acre__limit.lock);
    known = chunk_find(*handle_out);
    if (known) {
        known->handles++;
        free(chunk);
    } else {
        chunk_insert(chunk, *handle_out);
    }
    pthread_mutex_unlock(&acre__limit.lock);
    return result;
}

static CUresult chunk_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle_out,
                                                  void *address) {
    CUresult result = acre__limit.inner->cuMemRetainAllocationHandle(handle_out, address);
    if (result)
        return result;
    pthread_mutex_lock(&acre__limit.lock);
    struct limit_chunk *chunk = chunk_find(*handle_out);
    const struct limit_block *mapping =
        mapping_of(acre__tree_floor(&acre__limit.mappings, (uintptr_t)address));
    if (chunk)
        chunk->handles++;
    else if (mapping && (uintptr_t)address - mapping->node.key < mapping->bytes &&
             !mapping->chunk->handles) /* the program had released its handles */
        chunk_insert(mapping->chunk, *handle_out);
    pthread_mutex_unlock(&acre__limit.lock);
    return result;
}

static CUresult chunk_cuMemRelease(CUmemGenericAllocationHandle handle) {
    CUresult result = acre__limit.inner->cuMemRelease(handle);
    if (result)
        return result;
    pthread_mutex_lock(&acre__limit.lock);
    struct limit_chunk *chunk = chunk_find(handle);
    if (chunk && --chunk->handles == 0) {
        acre__tree_remove(&acre__limit.chunks, &chunk->node);
        chunk_end_if_unused(chunk);
    }
    pthread_mutex_unlock(&acre__limit.lock);
    return result;
}

/* ---- mappings ---- */

/* Adds a reference of a mapping to the chunk, and charges a chunk whose size was not known. Returns
 * 0 if the limit does not allow it. *chunk_out is NULL if the chunk is not known, *is_sized_out 1
 * if this call has set its size. */
static int mapping_begin(CUmemGenericAllocationHandle handle, size_t bytes,
                         struct limit_chunk **chunk_out, int *is_sized_out) {
    pthread_mutex_lock(&acre__limit.lock);
    struct limit_chunk *chunk = *chunk_out = chunk_find(handle);
    int is_new = chunk && !chunk->bytes && !chunk->is_host;
    if (chunk)
        chunk->mappings++;
    pthread_mutex_unlock(&acre__limit.lock);
    if (!is_new)
        return 1;
    int is_taken = chunk_take(bytes);
    pthread_mutex_lock(&acre__limit.lock);
    if (!is_taken) {
        chunk->mappings--;
        chunk_end_if_unused(chunk);
    } else if (chunk->bytes) { /* another thread was first */
        chunk_give(bytes);
    } else {
        chunk_set_bytes(chunk, bytes);
        *is_sized_out = 1;
    }
    pthread_mutex_unlock(&acre__limit.lock);
    return is_taken;
}

static CUresult chunk_cuMemMap(CUdeviceptr ptr, size_t bytes, size_t offset,
                               CUmemGenericAllocationHandle handle, unsigned long long flags) {
    struct limit_block *mapping = calloc(1, sizeof *mapping);
    struct limit_chunk *chunk;
    int is_sized = 0;
    if (!mapping || !mapping_begin(handle, bytes, &chunk, &is_sized)) {
        free(mapping);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult result = acre__limit.inner->cuMemMap(ptr, bytes, offset, handle, flags);
    mapping->node.key = ptr;
    mapping->bytes = bytes;
    mapping->chunk = chunk;
    pthread_mutex_lock(&acre__limit.lock);
    if (result && is_sized && chunk->mappings == 1) { /* its size is not known after all */
        chunk_give(chunk->bytes);
        chunk_set_bytes(chunk, 0);
    }
    if (!chunk)
        free(mapping);
    else if (result)
        mapping_end(mapping);
    else
        mapping_add(mapping);
    pthread_mutex_unlock(&acre__limit.lock);
    return result;
}

static CUresult chunk_cuMemUnmap(CUdeviceptr ptr, size_t bytes) {
    struct limit_block *list = NULL, *mapping;
    struct acre__node *node;
    pthread_mutex_lock(&acre__limit.lock);
    while ((node = acre__tree_ceil(&acre__limit.mappings, ptr)) && node->key - ptr < bytes) {
        mapping = mapping_of(node);
        acre__tree_remove(&acre__limit.mappings, node);
        mapping->next = list;
        list = mapping;
    }
    pthread_mutex_unlock(&acre__limit.lock);
    CUresult result = acre__limit.inner->cuMemUnmap(ptr, bytes);
    pthread_mutex_lock(&acre__limit.lock);
    while ((mapping = list)) {
        list = mapping->next;
        if (result)
            mapping_add(mapping);
        else
            mapping_end(mapping);
    }
    pthread_mutex_unlock(&acre__limit.lock);
    return result;
}

uint64_t acre__limit_program_bytes(void) {
    pthread_mutex_lock(&acre__limit.lock);
    uint64_t bytes = program_bytes;
    pthread_mutex_unlock(&acre__limit.lock);
    return bytes;
}

void acre__limit_forget_chunks(void) {
    acre__limit.chunks = acre__limit.mappings = (struct acre__tree){NULL, 0};
    program_bytes = 0;
}

void acre__limit_count_chunks(struct acre__driver *table, const struct acre__driver *inner) {
    acre__limit.inner = inner;
    acre__limit_wrap_chunks(table);
}

void acre__limit_wrap_chunks(struct acre__driver *table) {
    table->cuMemCreate = chunk_cuMemCreate;
    table->cuMemImportFromShareableHandle = chunk_cuMemImportFromShareableHandle;
    table->cuMemRetainAllocationHandle = chunk_cuMemRetainAllocationHandle;
    table->cuMemRelease = chunk_cuMemRelease;
    table->cuMemMap = chunk_cuMemMap;
    table->cuMemUnmap = chunk_cuMemUnmap;
}
