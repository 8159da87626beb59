/* Where memory comes from: the call stacks that allocated and freed each block, by address.
 *
 * Only kept while stacks are on (ACRE_STACKS, ACRE_DEBUG); otherwise each function costs one load
 * and one branch. An entry stays after the free until the address is used again, so that a second
 * free can name the first. Functions may be called under any lock but a leaf. */
#ifndef ACRE_WATCH_ORIGIN_H
#define ACRE_WATCH_ORIGIN_H

#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "base/stack.h"

/* What an entry is, in messages. */
struct acre__what {
    const char *call;       /* that creates it */
    const char *area;       /* of the log */
    const char *one, *many; /* "block of a pool", "blocks of a pool" */
};

struct acre__origin {
    uintptr_t at;
    uint64_t bytes;
    const struct acre__what *what;
    const void *owner;  /* the pool, or the device */
    const char *label;  /* of the device */
    uint64_t since_ns;  /* when it was allocated, by CLOCK_MONOTONIC */
    acre_stream stream; /* that it was allocated on; of blocks of pools */
    uint32_t allocated,
        freed; /* stacks; `freed` is 0 while the block is live or its stack unknown */
    int is_live;
};

uint32_t acre__origin_add_now(const void *p, uint64_t bytes, const struct acre__what *what,
                              const void *owner, const char *label);
int acre__origin_free_now(const void *p);
void acre__origin_stream_now(const void *p, acre_stream stream);
void acre__origin_unfree_now(const void *p);
void acre__origin_resize_now(const void *p, uint64_t bytes);
void acre__origin_forget_now(const void *p);

/* Records a new block. Call it after the block was allocated. Returns the call stack, or 0. */
static inline uint32_t acre__origin_add(const void *p, uint64_t bytes,
                                        const struct acre__what *what, const void *owner,
                                        const char *label) {
    return acre__stacks_are_on() && p ? acre__origin_add_now(p, bytes, what, owner, label) : 0;
}
/* Records the stream of a new block. */
static inline void acre__origin_stream(const void *p, acre_stream stream) {
    if (acre__stacks_are_on())
        acre__origin_stream_now(p, stream);
}
/* Records that the caller frees a block. Call it before the block is freed. Returns 1 if the block
 * was live: if the free then fails, call acre__origin_unfree. */
static inline int acre__origin_free(const void *p) {
    return acre__stacks_are_on() && p && acre__origin_free_now(p);
}
static inline void acre__origin_unfree(const void *p, int is_freed) {
    if (is_freed)
        acre__origin_unfree_now(p);
}
/* Records a new size. */
static inline void acre__origin_resize(const void *p, uint64_t bytes) {
    if (acre__stacks_are_on())
        acre__origin_resize_now(p, bytes);
}

/* Drops the entry of a block that became part of another object. */
static inline void acre__origin_forget(const void *p) {
    if (acre__stacks_are_on())
        acre__origin_forget_now(p);
}

/* Copies the entry of an address. Returns 0 if there is none. */
int acre__origin_find(const void *p, struct acre__origin *origin);

/* Logs all live entries of an owner, grouped by call stack, the largest first, reports them to
 * `acre run` and forgets them.
 * `what` NULL: of any kind. Returns 0 if stacks are off: the caller then logs what it knows. */
int acre__origin_log_leaks(const void *owner, const struct acre__what *what);
/* Forgets all live entries of an owner. */
void acre__origin_drop(const void *owner);
/* As acre__origin_log_leaks, for all owners, without forgetting them: log them, or report them to
 * `acre run`. */
void acre__origin_log_all(void);
void acre__origin_run_all(void);

/* Calls `fn` for each call stack with live entries of an owner: their number and bytes. */
void acre__origin_by_stack(const void *owner,
                           void (*fn)(void *user, uint32_t stack, uint64_t count, uint64_t bytes),
                           void *user);

/* Logs that the caller frees a block again, and returns 1, if the entry of the address says so. */
int acre__origin_log_double_free(const void *p);

/* With ACRE_DEBUG: logs a call that failed because of a mistake in the program, with its call
 * stack. For acre__on_refusal. */
void acre__origin_log_refusal(acre_status status);

/* Logs an error of the memory at `p`: the formatted line, then who allocated and freed it. */
void acre__origin_log_error(const void *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
