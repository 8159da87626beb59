/* The trace of a watched program; see ledger_trace.h. */
#include "ledger_trace.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "acre.h"
#include "ledger.h"
#include "watch/trace.h"

enum { TRACE_SITES = 4096, TRACE_PLACE = 256, TRACE_NAME_BYTES = 2 * TRACE_PLACE + 16 };

static struct acre__trace_pool trace_pools[RUN_KIND_COUNT];
static _Atomic int trace_is_on;
static _Atomic unsigned char trace_named[TRACE_SITES]; /* 1: the tag of this caller has a name */

static const int trace_is_memory[RUN_KIND_COUNT] = {
#define TRACE_KIND(kind, title, is_memory) is_memory,
    RUN_KINDS(TRACE_KIND)
#undef TRACE_KIND
};

/* Decodes the path after `trace=`, which is hexadecimal, since it may have commas. Returns 0 if it
 * is none. Processes that the program starts have files of their own, with their number. */
static int trace_path(const char *hex, char path[PATH_MAX]) {
    size_t length = strspn(hex, "0123456789abcdef") / 2;
    if (!length || length > PATH_MAX - 32)
        return 0;
    for (size_t i = 0; i < length; i++) {
        const char two[3] = {hex[2 * i], hex[2 * i + 1], '\0'};
        path[i] = (char)strtoul(two, NULL, 16);
    }
    path[length] = '\0';
    if (acre__ledger_program() != getpid())
        snprintf(path + length, PATH_MAX - length, ".%ld", (long)getpid());
    return 1;
}

void acre__ledger_trace_begin(int is_recorded) {
    static const char *const names[] = {
#define TRACE_NAME(kind, title, is_memory) title,
        RUN_KINDS(TRACE_NAME)
#undef TRACE_NAME
    };
    char path[PATH_MAX];
    const char *word = acre__ledger_word("trace=");
    if (!word || !trace_path(word, path))
        return;
    acre_status status = acre_trace_start(path, NULL);
    if (status) {
        acre__ledger_say("no trace: %s", acre_last_detail());
        return;
    }
    for (int i = 0; i < RUN_KIND_COUNT; i++)
        acre__trace_pool_init(&trace_pools[i], "%s", names[i]);
    atomic_store_explicit(&trace_is_on, is_recorded, memory_order_release);
}

void acre__ledger_trace_forget(void) {
    atomic_store_explicit(&trace_is_on, 0, memory_order_relaxed);
}

static int trace_has(enum run_kind kind) {
    return atomic_load_explicit(&trace_is_on, memory_order_acquire) && trace_is_memory[kind];
}

/* The runtime calls the driver for everybody, so its place says nothing. */
static int trace_is_runtime(const void *address) {
    char name[RUN_NAME_BYTES];
    uint64_t offset;
    return acre__ledger_module((uintptr_t)address - 1, name, sizeof name, &offset) &&
           strncmp(name, "libcudart.so", strlen("libcudart.so")) == 0;
}

/* Formats who has allocated: "libcublas.so.13+0x5b45ed, called from train+0x11d8 (main)". */
static void trace_name(const struct acre_ledger_caller *caller, char name[TRACE_NAME_BYTES]) {
    char place[TRACE_PLACE], from[TRACE_PLACE] = "";
    acre__record_line(caller->address, place, sizeof place);
    if (caller->from)
        acre__record_line(caller->from, from, sizeof from);
    if (caller->from && trace_is_runtime(caller->address))
        snprintf(name, TRACE_NAME_BYTES, "%s", from);
    else
        snprintf(name, TRACE_NAME_BYTES, "%s%s%s", place, from[0] ? RUN_FROM : "", from);
}

void acre__ledger_trace_alloc(enum run_kind kind, uint64_t key, size_t bytes, uint32_t site,
                              const struct acre_ledger_caller *caller) {
    if (!trace_has(kind))
        return;
    if (site && site < TRACE_SITES &&
        !atomic_exchange_explicit(&trace_named[site], 1, memory_order_relaxed)) {
        char name[TRACE_NAME_BYTES];
        trace_name(caller, name);
        acre__trace_tag(site, name);
    }
    acre__trace_alloc(&trace_pools[kind], (const void *)(uintptr_t)key, bytes, bytes, NULL,
                      site < TRACE_SITES ? site : 0, 0);
}

void acre__ledger_trace_free(enum run_kind kind, uint64_t key) {
    if (trace_has(kind))
        acre__trace_free(&trace_pools[kind], (const void *)(uintptr_t)key, NULL);
}

void acre__ledger_trace_kept(enum run_kind kind, uint64_t key) {
    if (trace_has(kind))
        acre__trace_free_refused(&trace_pools[kind], (const void *)(uintptr_t)key, NULL,
                                 ACRE_E_DRIVER);
}
