/* Call stacks, each stored once: see stack.h.
 *
 * A stack is found by its hash in a table of chains, which is read without a lock. New stacks are
 * appended under a leaf lock and never freed, so a number stays valid.
 *
 * Two ways lead along the stack. The unwinder (libgcc_s) reads tables of the compiler and works
 * for all code. Frame pointers are faster, but end at code that was compiled without them. A walk
 * stays inside the stack of the thread; on any other stack (a fiber) the unwinder is used. */
#include "base/stack.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unwind.h>

#include "base/config.h"
#include "base/lock.h"
#include "base/own_module.h"
#include "base/status.h"
#include "base/stack_memo.h"
#include "base/symbol.h"

enum {
    STACK_CHAINS = 1 << 16,
    STACK_SEGMENT = 1024,  /* stacks per segment */
    STACK_SEGMENTS = 1024, /* 2^20 stacks at most */
    STACK_OWN_KEPT = 6     /* frames of this library kept if they cannot be told from others */
};

struct stack {
    uint32_t next; /* number of the next stack of the chain; 0: the last */
    uint32_t hash;
    uint32_t count;
    uintptr_t frames[];
};

/* What is found in the program's modules. */
struct found {
    _Unwind_Reason_Code (*unwind)(_Unwind_Trace_Fn, void *); /* _Unwind_Backtrace, or NULL */
    _Unwind_Ptr (*unwind_ip)(struct _Unwind_Context *);      /* _Unwind_GetIP */
    _Unwind_Word (*unwind_cfa)(struct _Unwind_Context *);    /* _Unwind_GetCFA */
    uintptr_t own_begin, own_end; /* this library's code; empty in libacre.a */
};

static struct {
    pthread_once_t once;
    acre_status status;
    char detail[ACRE__DETAIL_BYTES];
    unsigned frames; /* as configured */
    int by_frame_pointers;
    struct found found;
    unsigned own_frames; /* frames of the library that may precede the program's in libacre.a */
    struct acre__lock lock;
    uint32_t count;           /* `lock` */
    _Atomic uint32_t *chains; /* number of the first stack of each chain */
    _Atomic(struct stack **) segments[STACK_SEGMENTS];
} stacks = {.once = PTHREAD_ONCE_INIT, .lock = ACRE__LOCK_INIT("stacks", ACRE__RANK_LEAF)};

_Atomic uint32_t acre__stack_depth;

/* ---- configuration ---- */

/* Finds the bounds of the library's own code. */
static int own_module(struct dl_phdr_info *info, size_t bytes, void *user) {
    uintptr_t here = (uintptr_t)own_module, begin = UINTPTR_MAX, end = 0;
    struct found *found = user;
    (void)bytes;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_LOAD)
            continue;
        uintptr_t at = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        begin = at < begin ? at : begin;
        end = at + info->dlpi_phdr[i].p_memsz > end ? at + info->dlpi_phdr[i].p_memsz : end;
    }
    if (here < begin || here >= end)
        return 0;
    found->own_begin = begin;
    found->own_end = end;
    return 1;
}

/* Loads the compiler's unwinder. Every system with glibc has it, and acre need not link it. */
static void unwinder_load(struct found *found) {
    void *library = dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_LOCAL);
    void *unwind = library ? dlsym(library, "_Unwind_Backtrace") : NULL;
    void *unwind_ip = library ? dlsym(library, "_Unwind_GetIP") : NULL;
    void *unwind_cfa = library ? dlsym(library, "_Unwind_GetCFA") : NULL;
    if (!unwind || !unwind_ip || !unwind_cfa)
        return;
    memcpy(&found->unwind, &unwind, sizeof unwind);
    memcpy(&found->unwind_ip, &unwind_ip, sizeof unwind_ip);
    memcpy(&found->unwind_cfa, &unwind_cfa, sizeof unwind_cfa);
}

static acre_status stacks_configure(void) {
    const char *text = acre__config_string(ACRE__CONFIG_STACKS);
    stacks.frames = acre__debug_is_on() ? 8 : 0;
    if (text && acre__parse_stacks(text, &stacks.frames, &stacks.by_frame_pointers))
        return acre__fail(ACRE_E_CONFIG,
                          "ACRE_STACKS is '%.80s': expected a number of frames up to %d, such as 8 "
                          "or 8:fp",
                          text, ACRE__STACK_MOST);
    if (!stacks.frames)
        return ACRE_OK;
    stacks.chains = calloc(STACK_CHAINS, sizeof *stacks.chains);
    return stacks.chains ? ACRE_OK : acre__fail(ACRE_E_HOST_MEMORY, "no memory for call stacks");
}

static void stacks_begin(void) {
    struct acre__said said;
    acre__said_keep(&said);
    stacks.status = stacks_configure();
    snprintf(stacks.detail, sizeof stacks.detail, "%s", acre_last_detail());
    (void)acre__said_fail(ACRE_OK, &said);
}

/* Searches the modules, and switches the capture on. No lock is held, and no thread waits for this
 * one: it takes the loader's lock, and a constructor that runs under that may call acre. */
static void stacks_load(void) {
    struct found found = {.unwind = NULL};
    if (&acre__own_module)
        dl_iterate_phdr(own_module, &found);
    /* In libacre.a lines also tell which frames are acre's. */
    int is_run = acre__config_string(ACRE__CONFIG_RUN) != NULL;
    if (acre__debug_is_on() || is_run || !found.own_end)
        acre__symbols_use_lines();
    unwinder_load(&found);
    acre__lock_take(&stacks.lock);
    if (!acre__stacks_are_on()) {
        stacks.found = found;
        stacks.own_frames = found.own_end ? 0 : STACK_OWN_KEPT;
        atomic_store_explicit(&acre__stack_depth, stacks.frames, memory_order_release);
    }
    acre__lock_give(&stacks.lock);
}

acre_status acre__stacks_begin(void) {
    pthread_once(&stacks.once, stacks_begin);
    if (stacks.status)
        return acre__fail(stacks.status, "%s", stacks.detail);
    if (stacks.frames && !acre__stacks_are_on())
        stacks_load();
    else if (stacks.frames && acre__debug_is_on())
        acre__symbols_use_lines(); /* the program may have loaded a C++ library since */
    return ACRE_OK;
}

/* ---- capture ---- */

struct bounds {
    uintptr_t low, high;
};

/* The calling thread's own stack; queried once, since the answer comes from a file. */
static const struct bounds *thread_bounds(void) {
    static _Thread_local struct bounds bounds;
    pthread_attr_t attributes;
    void *low;
    size_t bytes;
    if (!bounds.high && pthread_getattr_np(pthread_self(), &attributes) == 0) {
        if (pthread_attr_getstack(&attributes, &low, &bytes) == 0)
            bounds = (struct bounds){(uintptr_t)low, (uintptr_t)low + bytes};
        pthread_attr_destroy(&attributes);
    }
    return &bounds;
}

static int is_own(uintptr_t frame) {
    return frame >= stacks.found.own_begin && frame < stacks.found.own_end;
}

/* The program's frames, as they are found. */
struct capture {
    struct acre__walk *walk;
    unsigned depth;
};

/* Adds a frame whose return address is stored below `end`. Returns 1 if no more are wanted. */
static int capture_add(const struct capture *capture, uintptr_t frame, uintptr_t end) {
    struct acre__walk *walk = capture->walk;
    if (walk->count || !is_own(frame)) {
        walk->ends[walk->count] = end;
        walk->frames[walk->count++] = frame;
    }
    return walk->count == capture->depth;
}

static _Unwind_Reason_Code capture_unwound(struct _Unwind_Context *context, void *capture) {
    uintptr_t frame = stacks.found.unwind_ip(context);
    return !frame || capture_add(capture, frame, stacks.found.unwind_cfa(context))
               ? _URC_END_OF_STACK
               : _URC_NO_REASON;
}

/* Returns the frame record at `at` if it is on the thread's stack, above `below`; else NULL. A
 * frame begins with the caller's frame pointer and the return address, on x86-64 and on AArch64
 * alike. */
static const uintptr_t *frame_at(const struct bounds *bounds, uintptr_t at, uintptr_t below) {
    int is_frame =
        bounds->high && at > below && at % sizeof at == 0 && at < bounds->high - 2 * sizeof at;
    return is_frame ? (const uintptr_t *)at : NULL;
}

/* Walks frame pointers. Finds nothing on a stack that is not the thread's own. */
ACRE__READS_STACK static __attribute__((noinline)) void
capture_walk(const struct capture *capture) {
    const struct bounds *bounds = thread_bounds();
    const uintptr_t *frame = frame_at(bounds, (uintptr_t)__builtin_frame_address(0), bounds->low);
    while (frame && frame[1] && !capture_add(capture, frame[1], 0))
        frame = frame_at(bounds, frame[0], (uintptr_t)frame);
}

/* Walks the frames of this library, which has frame pointers. Returns where the return address to
 * the program is stored, or NULL if the frames are not those of a library or not on the thread's
 * stack. */
ACRE__READS_STACK static __attribute__((noinline)) const uintptr_t *program_slot(void) {
    const struct bounds *bounds = thread_bounds();
    const uintptr_t *frame = frame_at(bounds, (uintptr_t)__builtin_frame_address(0), bounds->low);
    while (frame && is_own(frame[1]))
        frame = frame_at(bounds, frame[0], (uintptr_t)frame);
    return frame && stacks.found.own_end && frame[1] ? &frame[1] : NULL;
}

/* ---- storage ---- */

static struct stack *stack_at(uint32_t number) {
    struct stack **segment =
        atomic_load_explicit(&stacks.segments[(number - 1) / STACK_SEGMENT], memory_order_acquire);
    return segment[(number - 1) % STACK_SEGMENT];
}

static uint32_t frames_hash(const uintptr_t *frames, unsigned count) {
    uint64_t hash = count;
    for (unsigned i = 0; i < count; i++)
        hash = (hash ^ frames[i]) * UINT64_C(0x9e3779b97f4a7c15), hash ^= hash >> 29;
    return (uint32_t)(hash >> 32);
}

static uint32_t stack_find(uint32_t number, uint32_t hash, const uintptr_t *frames,
                           unsigned count) {
    while (number) {
        const struct stack *stack = stack_at(number);
        if (stack->hash == hash && stack->count == count &&
            memcmp(stack->frames, frames, count * sizeof *frames) == 0)
            return number;
        number = stack->next;
    }
    return 0;
}

/* Lock held: appends a stack; 0 if out of host memory or numbers. */
static uint32_t stack_add(uint32_t hash, const uintptr_t *frames, unsigned count) {
    uint32_t number = stacks.count + 1;
    if (number > (uint32_t)STACK_SEGMENT * STACK_SEGMENTS)
        return 0;
    _Atomic(struct stack **) *at = &stacks.segments[(number - 1) / STACK_SEGMENT];
    struct stack **segment = atomic_load_explicit(at, memory_order_relaxed);
    if (!segment) {
        segment = calloc(STACK_SEGMENT, sizeof(struct stack *));
        if (!segment)
            return 0;
        atomic_store_explicit(at, segment, memory_order_release);
    }
    struct stack *stack = malloc(sizeof *stack + count * sizeof *frames);
    if (!stack)
        return 0;
    _Atomic uint32_t *chain = &stacks.chains[hash % STACK_CHAINS];
    stack->hash = hash;
    stack->count = count;
    stack->next = atomic_load_explicit(chain, memory_order_relaxed);
    memcpy(stack->frames, frames, count * sizeof *frames);
    segment[(number - 1) % STACK_SEGMENT] = stack;
    stacks.count = number;
    atomic_store_explicit(chain, number, memory_order_release);
    return number;
}

static uint32_t stack_store(const struct acre__walk *walk) {
    uint32_t hash = frames_hash(walk->frames, walk->count);
    _Atomic uint32_t *chain = &stacks.chains[hash % STACK_CHAINS];
    uint32_t first = atomic_load_explicit(chain, memory_order_acquire);
    uint32_t number = stack_find(first, hash, walk->frames, walk->count);
    if (number)
        return number;
    acre__lock_take(&stacks.lock);
    first = atomic_load_explicit(chain, memory_order_relaxed);
    number = stack_find(first, hash, walk->frames, walk->count);
    if (!number)
        number = stack_add(hash, walk->frames, walk->count);
    acre__lock_give(&stacks.lock);
    return number;
}

uint32_t acre__stack_take(void) {
    struct acre__walk walk;
    unsigned depth = atomic_load_explicit(&acre__stack_depth, memory_order_acquire);
    if (!depth)
        return 0;
    depth += stacks.own_frames;
    const struct capture capture = {&walk, depth < ACRE__STACK_MOST ? depth : ACRE__STACK_MOST};
    walk.count = 0;
    if (stacks.by_frame_pointers)
        capture_walk(&capture);
    if (walk.count)
        return stack_store(&walk);
    const uintptr_t *slot = program_slot();
    uint32_t number = slot ? acre__stack_recall(slot) : 0;
    if (number || !stacks.found.unwind)
        return number;
    (void)stacks.found.unwind(capture_unwound, (void *)(uintptr_t)&capture);
    number = walk.count ? stack_store(&walk) : 0;
    if (number && slot)
        acre__stack_remember(slot, &walk, number);
    return number;
}

unsigned acre__stack_frames(uint32_t stack, uintptr_t frames[ACRE__STACK_MOST]) {
    if (!stack)
        return 0;
    const struct stack *found = stack_at(stack);
    memcpy(frames, found->frames, found->count * sizeof *frames);
    return found->count;
}

/* ---- text ---- */

/* 1 for a frame such as /lib/libc.so.6+0x27743. */
static int is_of_libc(const char *text) {
    const char *slash = strrchr(text, '/'), *name = slash ? slash + 1 : text;
    return strncmp(name, "libc.so", strlen("libc.so")) == 0 && strstr(name, "+0x") != NULL;
}

/* Writes the frames of the program as text, innermost first, up to main. In a program that contains
 * the library, frames of the library come first; acre__symbol_text recognises them. Returns the
 * number of texts. */
static unsigned stack_texts(uint32_t stack, char (*texts)[ACRE__FRAME_TEXT], unsigned most) {
    uintptr_t frames[ACRE__STACK_MOST] = {0};
    unsigned count = acre__stack_frames(stack, frames), used = 0;
    unsigned depth = atomic_load_explicit(&acre__stack_depth, memory_order_relaxed);
    most = depth < most ? depth : most;
    for (unsigned i = 0; i < count && used < most; i++) {
        enum acre__symbol_kind kind = acre__symbol_text(frames[i], texts[used], ACRE__FRAME_TEXT);
        if (kind == ACRE__SYMBOL_OWN && !used)
            continue;
        used++;
        if (kind == ACRE__SYMBOL_MAIN)
            break;
    }
    while (used > 1 && is_of_libc(texts[used - 1]))
        used--; /* it started the thread, or main */
    return used;
}

unsigned acre__stack_callers(uint32_t stack, uintptr_t frames[ACRE__STACK_MOST]) {
    char ignored[ACRE__FRAME_TEXT];
    unsigned count = acre__stack_frames(stack, frames), own = 0;
    while (own + 1 < count && stacks.own_frames &&
           acre__symbol_text(frames[own], ignored, sizeof ignored) == ACRE__SYMBOL_OWN)
        own++;
    memmove(frames, frames + own, (count - own) * sizeof *frames);
    return count - own;
}

void acre__stack_where(uint32_t stack, char text[ACRE__FRAME_TEXT]) {
    if (!stack_texts(stack, (char(*)[ACRE__FRAME_TEXT])text, 1))
        text[0] = '\0';
}

void acre__stack_brief(uint32_t stack, char text[ACRE__FRAME_TEXT]) {
    acre__stack_where(stack, text);
    char *file = strstr(text, " at "), *slash = strrchr(text, '/');
    if (file && slash > file)
        memmove(file + strlen(" at "), slash + 1, strlen(slash + 1) + 1);
}

unsigned acre__stack_lines(uint32_t stack, char (*lines)[ACRE__LOG_LINE], unsigned used,
                           unsigned most) {
    char texts[ACRE__STACK_MOST][ACRE__FRAME_TEXT];
    unsigned count = stack_texts(stack, texts, ACRE__STACK_MOST);
    for (unsigned i = 1; i < count && used < most; i++)
        snprintf(lines[used++], sizeof lines[0], "called by %s", texts[i]);
    return used;
}
