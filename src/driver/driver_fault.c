/*
 * Fails chosen driver calls: see driver_fault.h.
 *
 * The wrapper functions are generated from driver_list.h, once for each slot, because a driver
 * function has no pointer to its table. A plan fits into one 64-bit word, so a call reads it with
 * one load and never sees half of a new plan.
 *
 * cuGetErrorName and cuGetErrorString are passed on without being counted: code that reports a
 * failure calls them, and reporting must not change the count.
 *
 * Relies on: base/status. Locks: a mutex while a slot is filled; the rest is atomic.
 */
#include "driver/driver_fault.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/parse.h"
#include "base/status.h"

/* A plan packed into a word: nth in bits 0-31, code in 32-47, entry in 48-59, mode in 60-61. */
#define FAULT_NTH(word) ((uint32_t)(word))
#define FAULT_CODE(word) ((CUresult)((word) >> 32 & 0xffff))
#define FAULT_ENTRY(word) ((unsigned)((word) >> 48 & 0xfff))
#define FAULT_MODE(word) ((enum acre__fault_mode)((word) >> 60 & 3))
#define FAULT_ANY ((unsigned)ACRE__ENTRY_COUNT)

_Static_assert(ACRE__ENTRY_COUNT < 0xfff, "entries fit their bits in a packed plan");

static struct {
    _Atomic uint64_t plan;
    _Atomic uint64_t count; /* matching calls */
    _Atomic uint64_t fired; /* failed calls */
    _Atomic int stuck;      /* a sticky fault has happened */
} fault = {.plan = (uint64_t)FAULT_ANY << 48};

/* ---- deciding -------------------------------------------------------------------------------- */

/* The values of the list's column `sticky`. */
enum { FAILS, SURVIVES };

/* By entry: 1 for functions that still work in a context that a kernel has broken. */
static const unsigned char fault_survives[ACRE__ENTRY_COUNT] = {
#define FAULT_SURVIVES(name, symbol, version, need, sticky, calls, moved, params, args) sticky,
    ACRE__DRIVER_LIST(FAULT_SURVIVES)
#undef FAULT_SURVIVES
};

/* Counts one call. CUDA_SUCCESS lets the call through; any other code is returned instead of making
 * the call. */
static CUresult fault_check(enum acre__driver_entry entry) {
    uint64_t plan, number;

    if (entry == ACRE__ENTRY_cuGetErrorName || entry == ACRE__ENTRY_cuGetErrorString)
        return CUDA_SUCCESS;
    plan = atomic_load_explicit(&fault.plan, memory_order_acquire);
    if (FAULT_MODE(plan) == ACRE__FAULT_STICKY &&
        atomic_load_explicit(&fault.stuck, memory_order_acquire)) {
        atomic_fetch_add_explicit(&fault.count, 1, memory_order_relaxed);
        if (fault_survives[entry])
            return CUDA_SUCCESS;
        goto fail;
    }
    if (FAULT_ENTRY(plan) != FAULT_ANY && FAULT_ENTRY(plan) != (unsigned)entry)
        return CUDA_SUCCESS;
    number = 1 + atomic_fetch_add_explicit(&fault.count, 1, memory_order_relaxed);
    if (FAULT_NTH(plan) == 0 || number < FAULT_NTH(plan))
        return CUDA_SUCCESS;
    if (FAULT_MODE(plan) == ACRE__FAULT_ONCE && number > FAULT_NTH(plan))
        return CUDA_SUCCESS;
    if (FAULT_MODE(plan) == ACRE__FAULT_STICKY)
        atomic_store_explicit(&fault.stuck, 1, memory_order_release);
fail:
    atomic_fetch_add_explicit(&fault.fired, 1, memory_order_relaxed);
    return FAULT_CODE(plan);
}

/* ---- the two wrapped tables ------------------------------------------------------------------ */

static const struct acre__driver *_Atomic fault_inner[2];

#define FAULT_FUNCTION(slot, entry, params, args)                                                  \
    static CUresult fault_##slot##_##entry params {                                                \
        CUresult acre__code = fault_check(ACRE__ENTRY_##entry);                                    \
                                                                                                   \
        if (acre__code != CUDA_SUCCESS)                                                            \
            return acre__code;                                                                     \
        return atomic_load_explicit(&fault_inner[slot], memory_order_acquire)->entry args;         \
    }
#define FAULT_FUNCTION_0(name, symbol, version, need, sticky, calls, moved, params, args)          \
    FAULT_FUNCTION(0, name, params, args)
#define FAULT_FUNCTION_1(name, symbol, version, need, sticky, calls, moved, params, args)          \
    FAULT_FUNCTION(1, name, params, args)
ACRE__DRIVER_LIST(FAULT_FUNCTION_0)
ACRE__DRIVER_LIST(FAULT_FUNCTION_1)

#define FAULT_MEMBER_0(entry, symbol, version, need, sticky, calls, moved, params, args)           \
    .entry = fault_0_##entry,
#define FAULT_MEMBER_1(entry, symbol, version, need, sticky, calls, moved, params, args)           \
    .entry = fault_1_##entry,
static struct acre__driver fault_table[2] = {
    {.is_soft = 0, ACRE__DRIVER_LIST(FAULT_MEMBER_0)},
    {.is_soft = 1, ACRE__DRIVER_LIST(FAULT_MEMBER_1)},
};

static pthread_mutex_t fault_wrapping = PTHREAD_MUTEX_INITIALIZER;

const struct acre__driver *acre__fault_wrap(const struct acre__driver *inner) {
    struct acre__driver *table;
    int slot;

    if (inner == NULL || inner == &fault_table[0] || inner == &fault_table[1])
        return inner;
    slot = inner->is_soft != 0;
    table = &fault_table[slot];
    pthread_mutex_lock(&fault_wrapping);
    if (atomic_load_explicit(&fault_inner[slot], memory_order_acquire) != inner) {
        table->name = inner->name;
        table->is_soft = inner->is_soft;
        table->copied_bytes = inner->copied_bytes;
        table->calls = inner->calls;
        memcpy(table->missing, inner->missing, sizeof table->missing);
        atomic_store_explicit(&fault_inner[slot], inner, memory_order_release);
    }
    pthread_mutex_unlock(&fault_wrapping);
    return table;
}

/* ---- plans ----------------------------------------------------------------------------------- */

acre_status acre__fault_set(const struct acre__fault_plan *plan) {
    uint64_t word = (uint64_t)FAULT_ANY << 48;

    if (plan != NULL) {
        unsigned entry = FAULT_ANY;

        if (plan->entry != NULL) {
            entry = acre__driver_entry_find(plan->entry);
            if (entry == ACRE__ENTRY_COUNT)
                return acre__fail(ACRE_E_INVALID, "fault plan: no driver function is called %s",
                                  plan->entry);
        }
        if ((unsigned)plan->code > 0xffff || (plan->nth != 0 && plan->code == CUDA_SUCCESS))
            return acre__fail(ACRE_E_INVALID, "fault plan: %u is not an error code",
                              (unsigned)plan->code);
        if ((unsigned)plan->mode > ACRE__FAULT_STICKY)
            return acre__fail(ACRE_E_INVALID, "fault plan: %u is not a mode", (unsigned)plan->mode);
        word = plan->nth | (uint64_t)plan->code << 32 | (uint64_t)entry << 48 |
               (uint64_t)plan->mode << 60;
    }
    /* The old plan is switched off first, so that it never decides by the reset counters. */
    atomic_store_explicit(&fault.plan, (uint64_t)FAULT_ANY << 48, memory_order_release);
    atomic_store_explicit(&fault.stuck, 0, memory_order_relaxed);
    atomic_store_explicit(&fault.count, 0, memory_order_relaxed);
    atomic_store_explicit(&fault.fired, 0, memory_order_relaxed);
    atomic_store_explicit(&fault.plan, word, memory_order_release);
    return ACRE_OK;
}

uint64_t acre__fault_count(void) {
    return atomic_load_explicit(&fault.count, memory_order_relaxed);
}

uint64_t acre__fault_fired(void) {
    return atomic_load_explicit(&fault.fired, memory_order_relaxed);
}

/* ---- reading a plan from text ---------------------------------------------------------------- */

/* Parses a number of at most `largest`. Returns 0 on success. */
static int fault_number(const char *text, uint32_t largest, uint32_t *value) {
    uint64_t number;

    if (acre__parse_number(text, &number) != 0 || number > largest)
        return -1;
    *value = (uint32_t)number;
    return 0;
}

/* Parses an error code that acre knows, by number or by name. Returns 0 on success. */
static int fault_code(const char *text, CUresult *code) {
    static const struct {
        const char *name;
        uint32_t value;
    } codes[] = {
#define FAULT_CODE_NAME(name, value, text) {#name, value},
        ACRE__CURESULT_LIST(FAULT_CODE_NAME)
#undef FAULT_CODE_NAME
    };
    uint32_t number = 0;
    int by_number = fault_number(text, 0xffff, &number) == 0;

    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        if (codes[i].value == CUDA_SUCCESS)
            continue;
        if (by_number ? codes[i].value == number : strcmp(codes[i].name, text) == 0) {
            *code = (CUresult)codes[i].value;
            return 0;
        }
    }
    return -1;
}

static int fault_mode(const char *text, enum acre__fault_mode *mode) {
    static const char *const names[] = {"once", "from", "sticky"};

    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i], text) == 0) {
            *mode = (enum acre__fault_mode)i;
            return 0;
        }
    }
    return -1;
}

acre_status acre__fault_parse(const char *spec, struct acre__fault_plan *plan) {
    struct acre__fault_plan made = {.code = CUDA_ERROR_OUT_OF_MEMORY, .mode = ACRE__FAULT_ONCE};
    char text[160];
    char *part[4], *at;
    size_t parts = 0;

    if (spec == NULL || plan == NULL)
        return acre__fail(ACRE_E_NULL, "fault plan: text or plan is NULL");
    if (strlen(spec) >= sizeof text)
        return acre__fail(ACRE_E_CONFIG, "ACRE_FAULT has %zu bytes: expected entry:n[:mode[:code]]",
                          strlen(spec));
    memcpy(text, spec, strlen(spec) + 1);
    for (at = text; at != NULL && parts < 4; parts++) {
        part[parts] = at;
        at = strchr(at, ':');
        if (at != NULL)
            *at++ = '\0';
    }
    if (at != NULL)
        return acre__fail(ACRE_E_CONFIG, "ACRE_FAULT=%s: unexpected text after the code: '%s'",
                          spec, at);
    if (parts < 2)
        return acre__fail(ACRE_E_CONFIG, "ACRE_FAULT=%s: expected entry:n[:mode[:code]]", spec);
    if (strcmp(part[0], "*") != 0) {
        made.entry = acre__driver_entry_name(acre__driver_entry_find(part[0]));
        if (made.entry == NULL)
            return acre__fail(ACRE_E_CONFIG, "ACRE_FAULT=%s: no driver function is called '%s'",
                              spec, part[0]);
    }
    if (fault_number(part[1], UINT32_MAX, &made.nth) != 0)
        return acre__fail(ACRE_E_CONFIG, "ACRE_FAULT=%s: '%s' is not a call number", spec, part[1]);
    if (parts > 2 && fault_mode(part[2], &made.mode) != 0)
        return acre__fail(ACRE_E_CONFIG, "ACRE_FAULT=%s: '%s' is not once, from or sticky", spec,
                          part[2]);
    if (parts > 3 && fault_code(part[3], &made.code) != 0)
        return acre__fail(ACRE_E_CONFIG, "ACRE_FAULT=%s: '%s' is not a driver error code", spec,
                          part[3]);
    *plan = made;
    return ACRE_OK;
}
