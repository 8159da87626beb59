/* For tests of sharing: a path, a vec with a pattern in it, and a check for leaks at the end. */
#ifndef ACRE_TESTS_API_SHARE_H
#define ACRE_TESTS_API_SHARE_H

#include <dirent.h>

#include "api_peer.h"

static char path[100]; /* in the abstract namespace; new_path changes it */

static inline const char *new_path(void) {
    static int number;
    snprintf(path, sizeof path, "@acre-test-share-%ld-%d", (long)getpid(), number++);
    return path;
}

static inline acre_vec *vec_make(acre_device *device, size_t element_bytes,
                                 uint64_t address_bytes) {
    acre_vec_options options = {.struct_size = sizeof options,
                                .flags = ACRE_VEC_SHAREABLE,
                                .chunk_bytes = 2 * MIB,
                                .address_bytes = address_bytes};
    acre_vec *vec = NULL;
    api_ok(acre_vec_create(device, element_bytes, &options, &vec));
    return vec;
}

static inline unsigned char pattern(size_t offset, unsigned salt) {
    return (unsigned char)(offset * 7 + (offset >> 20) * 13 + salt);
}

/* Write and compare 256 bytes of the pattern at every 1 MiB. That is quick, and it finds every
 * wrong mapping, since a chunk has 2 MiB. */
static inline void put(acre_device *device, void *p, size_t bytes, unsigned salt) {
    unsigned char piece[256];
    for (size_t at = 0; at < bytes; at += MIB) {
        size_t here = bytes - at < sizeof piece ? bytes - at : sizeof piece;
        for (size_t i = 0; i < here; i++)
            piece[i] = pattern(at + i, salt);
        api_ok(acre_copy_sync(device, (char *)p + at, piece, here));
    }
}

static inline int has(acre_device *device, const void *p, size_t bytes, unsigned salt) {
    unsigned char piece[256];
    for (size_t at = 0; at < bytes; at += MIB) {
        size_t here = bytes - at < sizeof piece ? bytes - at : sizeof piece;
        if (acre_copy_sync(device, piece, (const char *)p + at, here) != ACRE_OK)
            return 0;
        for (size_t i = 0; i < here; i++)
            if (piece[i] != pattern(at + i, salt))
                return 0;
    }
    return 1;
}

static inline acre_import_info info_of(acre_import *import) {
    acre_import_info info = {.struct_size = sizeof info};
    api_ok(acre_import_get_info(import, &info));
    return info;
}

static inline uint64_t free_bytes(acre_device *device) {
    acre_device_info info = {.struct_size = sizeof info};
    api_ok(acre_device_get_info(device, &info));
    return info.free_bytes;
}

static inline size_t open_fds(void) {
    size_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

/* Checks that the test leaked nothing, and closes the device. */
static inline void end(acre_device *device) {
    acre_device_stats stats = api_stats(device);
    assert_int_equal(stats.shares + stats.imports + stats.vecs, 0);
    assert_int_equal(stats.mem_blocks + stats.limbo_count, 0);
    api_ok(acre_close(device));
}

#endif
