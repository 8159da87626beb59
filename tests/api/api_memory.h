/* For tests of memory and copies: a buffer of every sort of memory, access to its contents, and
 * random numbers from a seed that the test prints. */
#ifndef ACRE_TESTS_API_MEMORY_H
#define ACRE_TESTS_API_MEMORY_H

#include <sys/mman.h>
#include <time.h>

#include "api_devices.h"
#include "support/random.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* ---- free memory ---- */

static inline uint64_t api_free_bytes(acre_device *device) {
    acre_device_info info = {.struct_size = sizeof info};
    api_ok(acre_device_get_info(device, &info));
    return info.free_bytes;
}

/* Checks the free bytes: to the byte on a soft device. The driver of a GPU may keep up to 8 MiB for
 * its own tables. */
static inline void api_expect_free_at(acre_device *device, uint64_t wanted, const char *file,
                                      int line) {
    acre_device_info info = {.struct_size = sizeof info};
    api_ok(acre_device_get_info(device, &info));
    uint64_t slack = strcmp(info.driver, "soft") == 0 ? 0 : 8 * MIB;
    if (info.free_bytes + slack < wanted || info.free_bytes > wanted + slack) {
        print_error("%s:%d: %llu bytes are free instead of %llu\n", file, line,
                    (unsigned long long)info.free_bytes, (unsigned long long)wanted);
        _fail(file, line);
    }
}
#define api_expect_free(device, wanted) api_expect_free_at((device), (wanted), __FILE__, __LINE__)

/* ---- sorts of memory ---- */

struct api_sort {
    const char *name;
    acre_kind kind; /* as acre_mem_query reports it */
    uint32_t flags;
    int is_own; /* memory of the program: registered if kind is not pageable */
};

enum {
    SORT_DEVICE,
    SORT_PINNED,
    SORT_COMBINED,
    SORT_MAPPED,
    SORT_MANAGED,
    SORT_REGISTERED,
    SORT_PAGEABLE,
    SORT_COUNT
};

static const struct api_sort api_sorts[SORT_COUNT] = {
    [SORT_DEVICE] = {"device", ACRE_KIND_DEVICE, 0, 0},
    [SORT_PINNED] = {"pinned", ACRE_KIND_PINNED, 0, 0},
    [SORT_COMBINED] = {"write-combined", ACRE_KIND_PINNED, ACRE_MEM_WRITE_COMBINED, 0},
    [SORT_MAPPED] = {"mapped", ACRE_KIND_MAPPED, ACRE_MEM_PORTABLE, 0},
    [SORT_MANAGED] = {"managed", ACRE_KIND_MANAGED, 0, 0},
    [SORT_REGISTERED] = {"registered", ACRE_KIND_PINNED, 0, 1},
    [SORT_PAGEABLE] = {"pageable", ACRE_KIND_PAGEABLE, 0, 1},
};

struct api_buffer {
    acre_device *device;
    const struct api_sort *sort;
    unsigned char *at;
    size_t bytes;
};

static inline struct api_buffer api_buffer_make(acre_device *device, int sort, size_t bytes) {
    struct api_buffer buffer = {device, &api_sorts[sort], NULL, bytes};
    void *p = NULL;
    if (!buffer.sort->is_own) {
        api_ok(acre_mem_alloc(device, buffer.sort->kind, bytes, buffer.sort->flags, &p));
    } else {
        /* Whole pages: a driver may refuse to register two blocks that share a page. */
        p = aligned_alloc(65536, (bytes + 65535) / 65536 * 65536);
        assert_non_null(p);
        memset(p, 0, bytes);
        if (buffer.sort->kind != ACRE_KIND_PAGEABLE)
            api_ok(acre_mem_register(device, p, bytes, buffer.sort->flags));
    }
    buffer.at = p;
    return buffer;
}

static inline void api_buffer_end(struct api_buffer *buffer) {
    if (!buffer->sort->is_own) {
        api_ok(acre_mem_free(buffer->device, buffer->at));
        return;
    }
    if (buffer->sort->kind != ACRE_KIND_PAGEABLE)
        api_ok(acre_mem_unregister(buffer->device, buffer->at));
    free(buffer->at);
}

/* Write and read the bytes of a buffer without staging: host memory directly, device memory through
 * `pinned`, which must be at least as large. */
static inline void api_buffer_put(struct api_buffer *buffer, size_t offset, const void *from,
                                  size_t bytes, struct api_buffer *pinned) {
    if (buffer->sort->kind != ACRE_KIND_DEVICE) {
        memcpy(buffer->at + offset, from, bytes);
        return;
    }
    memcpy(pinned->at, from, bytes);
    api_ok(acre_copy_sync(buffer->device, buffer->at + offset, pinned->at, bytes));
}

static inline const unsigned char *api_buffer_get(struct api_buffer *buffer, size_t offset,
                                                  size_t bytes, struct api_buffer *pinned) {
    if (buffer->sort->kind != ACRE_KIND_DEVICE)
        return buffer->at + offset;
    api_ok(acre_copy_sync(buffer->device, pinned->at, buffer->at + offset, bytes));
    return pinned->at;
}

/* ---- random bytes ---- */

static inline void api_random_bytes(uint64_t *random, unsigned char *at, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word = random_draw(random, UINT64_MAX);
        memcpy(at + i, &word, bytes - i < 8 ? bytes - i : 8);
    }
}

#endif
