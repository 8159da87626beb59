/* For tests of suspend and resume: contents that differ at every address, objects of every kind,
 * rules and the figures of a suspend. */
#ifndef ACRE_TESTS_API_SUSPEND_H
#define ACRE_TESTS_API_SUSPEND_H

#include "api_memory.h"

/* ---- contents ---- */

/* The bytes that memory at `p` holds: no two words of a test are equal, so that contents that come
 * back at another address are found. A sanitizer would slow the loop down by a factor of twenty. */
__attribute__((no_sanitize("thread"), no_sanitize("address"),
               no_sanitize("undefined"))) static inline unsigned char *
words_make(const void *p, size_t bytes, uint64_t salt) {
    enum { PAGE_WORDS = 512 };
    uint64_t *words = malloc(bytes + sizeof *words), word = 0;
    assert_non_null(words);
    for (size_t i = 0; i * sizeof word < bytes; i++) {
        uint64_t state = (uintptr_t)p + i * sizeof word + salt * 0x100000001b3u;
        word = i % PAGE_WORDS ? word + 0x9e3779b97f4a7c15u : random_next(&state);
        words[i] = word;
    }
    return (unsigned char *)words;
}

static inline void put(acre_device *device, void *p, size_t bytes, uint64_t salt) {
    unsigned char *words = words_make(p, bytes, salt);
    api_ok(acre_copy_sync(device, p, words, bytes));
    free(words);
}

/* 1 if the memory holds what `put` wrote. */
static inline int has(acre_device *device, const void *p, size_t bytes, uint64_t salt) {
    unsigned char *words = words_make(p, bytes, salt), *found = malloc(bytes);
    assert_non_null(found);
    memset(found, 0x5c, bytes);
    api_ok(acre_copy_sync(device, found, p, bytes));
    int is_same = memcmp(found, words, bytes) == 0;
    free(words);
    free(found);
    return is_same;
}

/* ---- suspends ---- */

static inline acre_suspend_options suspend_options(acre_suspend_how how, uint32_t flags) {
    return (acre_suspend_options){
        .struct_size = sizeof(acre_suspend_options), .how = how, .flags = flags};
}

#define RULE(...) ((acre_suspend_rule){.struct_size = sizeof(acre_suspend_rule), __VA_ARGS__})

static inline acre_suspended *suspend_with(acre_device *device,
                                           const acre_suspend_options *options) {
    acre_suspended *suspended = NULL;
    api_ok(acre_suspend(device, options, &suspended));
    assert_non_null(suspended);
    return suspended;
}

static inline acre_suspended *suspend_whole(acre_device *device) {
    return suspend_with(device, NULL);
}

/* Suspends what one rule names; the rest stays. */
static inline acre_suspended *suspend_part(acre_device *device, acre_suspend_rule rule,
                                           uint32_t flags) {
    acre_suspend_options options = suspend_options(ACRE_SUSPEND_STAY, flags);
    options.rules = &rule;
    options.rule_count = 1;
    return suspend_with(device, &options);
}

static inline acre_suspend_info suspend_info(const acre_suspended *suspended) {
    acre_suspend_info info = {.struct_size = sizeof info};
    api_ok(acre_suspend_get_info(suspended, &info));
    return info;
}

/* ---- objects ---- */

static inline acre_pool *pool_make(acre_device *device, uint32_t flags) {
    acre_pool_options options = {.struct_size = sizeof options, .flags = flags};
    acre_pool *pool = NULL;
    api_ok(acre_pool_create(device, &options, &pool));
    return pool;
}

/* A block of a pool, with contents. */
static inline char *block_make(acre_device *device, acre_pool *pool, size_t bytes, uint64_t salt) {
    void *p = NULL;
    api_ok(acre_pool_alloc(pool, bytes, 0, NULL, &p));
    put(device, p, bytes, salt);
    return p;
}

static inline char *block_tagged(acre_device *device, acre_pool *pool, const char *tag,
                                 size_t bytes, uint64_t salt) {
    api_ok(acre_tag_push(tag));
    char *p = block_make(device, pool, bytes, salt);
    api_ok(acre_tag_pop());
    return p;
}

static inline acre_vec *vec_of(acre_device *device, size_t bytes, uint64_t salt) {
    acre_vec *vec = NULL;
    api_ok(acre_vec_create(device, 1, NULL, &vec));
    api_ok(acre_vec_grow(vec, bytes, NULL));
    put(device, acre_vec_data(vec), bytes, salt);
    return vec;
}

static inline char *mem_of(acre_device *device, size_t bytes, uint64_t salt) {
    void *p = NULL;
    api_ok(acre_mem_alloc(device, ACRE_KIND_DEVICE, bytes, 0, &p));
    put(device, p, bytes, salt);
    return p;
}

/* Nothing of the device is left: all memory was freed, and nothing is suspended. */
static inline void expect_nothing_left(acre_device *device) {
    api_ok(acre_trim(device));
    acre_device_stats stats = api_stats(device);
    assert_int_equal(stats.suspended_bytes, 0);
    assert_int_equal(stats.chunks, 0);
    assert_int_equal(stats.chunk_bytes, 0);
    assert_int_equal(stats.limbo_count, 0);
}

#endif
