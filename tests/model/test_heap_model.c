/* The heap's core compared with a shadow map that records the owner of every 16 bytes.
 *
 * One test makes random calls of every kind in one thread. Another runs virtual threads that may
 * switch at every atomic operation, in orders drawn from seeds. Allocated memory must not belong to
 * another block; at the end all memory is free and the records are sound. ACRE_TEST_SEED=<seed>
 * repeats one schedule. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/cases.h"
#include "soft/sched.h"
#include "model/schedule.h"
#include "support/rounds.h"
#include "unit/heap_fixture.h"

enum { GRAIN = 16, BLOCKS = 3000 };

struct block {
    unsigned char *p;
    size_t bytes; /* requested */
    uint16_t tag;
};

struct shadow {
    struct heap_fixture f;
    uint16_t *owners; /* tag of the owner of every 16 bytes; 0: free */
    uint16_t tags;
    const char *fault;
};

static void shadow_begin(struct shadow *s, uint32_t segments, uint32_t max_segments) {
    heap_begin(&s->f, segments, max_segments);
    s->owners = calloc(max_segments * ACRE__HEAP_SEGMENT_BYTES / GRAIN, sizeof *s->owners);
    s->tags = 0;
    s->fault = NULL;
    assert_non_null(s->owners);
}

static void shadow_end(struct shadow *s) {
    heap_end(&s->f);
    free(s->owners);
}

/* Changes the owner of the block from `from` to `to`; 0 is free. */
static void shadow_own(struct shadow *s, const struct block *block, uint16_t from, uint16_t to) {
    size_t first = (size_t)(block->p - (unsigned char *)s->f.h.base) / GRAIN;
    size_t count = acre_heap_usable_size(s->f.h, block->p) / GRAIN;
    if (count * GRAIN < block->bytes || !count)
        s->fault = "a block has fewer bytes than requested";
    for (size_t i = first; i < first + count; i++) {
        if (s->owners[i] != from)
            s->fault = from ? "a part of a block has another owner" : "memory was allocated twice";
        s->owners[i] = to;
    }
}

static void shadow_take(struct shadow *s, struct block *block, void *p, size_t bytes) {
    s->tags = (uint16_t)(s->tags % 60000 + 1);
    *block = (struct block){p, bytes, s->tags};
    if (!p)
        return;
    shadow_own(s, block, 0, block->tag);
    memset(p, block->tag & 255, bytes < 64 ? bytes : 64);
    if (bytes)
        block->p[bytes - 1] = (unsigned char)block->tag;
}

static void shadow_drop(struct shadow *s, struct block *block) {
    if (!block->p)
        return;
    for (size_t i = 0; i < block->bytes && i < 64; i++)
        if (block->p[i] != (unsigned char)block->tag)
            s->fault = "the contents of a block changed";
    if (block->bytes && block->p[block->bytes - 1] != (unsigned char)block->tag)
        s->fault = "the end of a block changed";
    shadow_own(s, block, block->tag, 0);
}

static void shadow_free(struct shadow *s, struct block *block) {
    shadow_drop(s, block);
    acre_heap_free(s->f.h, block->p);
    block->p = NULL;
}

/* ---- one thread, every call ---- */

static size_t draw_bytes(uint64_t *seed) {
    uint32_t log2 = heap_random(seed) % 10 ? heap_random(seed) % 14 : heap_random(seed) % 23;
    return heap_random(seed) % ((size_t)2 << log2);
}

static void step_realloc(struct shadow *s, struct block *block, size_t bytes) {
    struct block old = *block;
    if (!old.p)
        return;
    shadow_drop(s, block);
    unsigned char *p = acre_heap_realloc(s->f.h, old.p, bytes);
    if (!p) {
        shadow_own(s, &old, 0, old.tag);
        return;
    }
    size_t kept = bytes < old.bytes ? bytes : old.bytes;
    for (size_t i = 0; i < kept && i < 64; i++)
        if (p[i] != (unsigned char)old.tag)
            s->fault = "realloc lost the contents";
    shadow_take(s, block, p, bytes);
}

static void step_wrong_free(struct shadow *s, const struct block *block, uint64_t *seed) {
    uint64_t before = heap_wrong_frees(&s->f);
    char *wrong = s->f.h.base + s->f.h.control->committed * ACRE__HEAP_SEGMENT_BYTES;
    if (block->p && heap_random(seed) % 2)
        wrong = (char *)block->p + 1 + heap_random(seed) % 15;
    acre_heap_free(s->f.h, wrong);
    if (heap_wrong_frees(&s->f) != before + 1)
        s->fault = "a wrong free was not counted";
}

static void step_malloc(struct shadow *s, struct block *block, uint64_t *seed) {
    size_t bytes = draw_bytes(seed), align = (size_t)1 << heap_random(seed) % 22;
    switch (heap_random(seed) % 4) {
    case 0:
        shadow_take(s, block, acre_heap_aligned_malloc(s->f.h, bytes, align), bytes);
        if ((uintptr_t)block->p % align)
            s->fault = "a block is not aligned";
        break;
    case 1:
        shadow_take(s, block, acre_heap_calloc(s->f.h, 1, bytes), bytes);
        break;
    default:
        shadow_take(s, block, acre_heap_malloc(s->f.h, bytes), bytes);
    }
}

TEST(heap_random_calls_agree_with_the_shadow) {
    static struct block blocks[BLOCKS];
    struct shadow s;
    enum { STEPS = ROUNDS(60000, 12000), GROWTHS = 15 };
    uint64_t end, round = schedule_seeds(ROUNDS(6, 4), &end);
    for (; round < end; round++) {
        uint64_t seed = round;
        shadow_begin(&s, 6, 24);
        memset(blocks, 0, sizeof blocks);
        for (int step = 0; step < STEPS && !s.fault; step++) {
            struct block *block = &blocks[heap_random(&seed) % (BLOCKS >> round % 4)];
            uint32_t what = heap_random(&seed) % 16;
            if (what == 0)
                step_realloc(&s, block, draw_bytes(&seed));
            else if (what == 1)
                step_wrong_free(&s, block, &seed);
            else if (!block->p)
                step_malloc(&s, block, &seed);
            else
                shadow_free(&s, block);
            if (step % (STEPS / GROWTHS) == 0 && s.f.h.control->committed < 24)
                s.f.h.control->committed++;
            if (step % 500 == 0 && !s.fault)
                s.fault = heap_fault(s.f.h);
        }
        for (int i = 0; i < BLOCKS; i++)
            shadow_free(&s, &blocks[i]);
        if (s.fault)
            fail_msg("ACRE_TEST_SEED=%llu: %s", (unsigned long long)round, s.fault);
        heap_expect_empty(&s.f);
        shadow_end(&s);
    }
}

/* ---- virtual threads ---- */

enum { THREADS = 4, HELD = 6, STEPS = 24 };

struct actor {
    struct shadow *s;
    uint64_t seed;
    size_t unit; /* sizes are 1 to 3 times this */
    struct block held[HELD];
};

static struct block passed; /* a block passed between actors */

static void act(void *user) {
    struct actor *a = user;
    for (int i = 0; i < STEPS && !a->s->fault; i++) {
        struct block *block = &a->held[heap_random(&a->seed) % HELD];
        if (heap_random(&a->seed) % 4 == 0) { /* no atomics, so no thread switch within */
            struct block mine = *block;
            *block = passed;
            passed = mine;
        } else if (block->p) {
            struct block mine = *block;
            block->p = NULL;
            shadow_free(a->s, &mine);
        } else {
            size_t bytes = a->unit + a->unit * (heap_random(&a->seed) % 3);
            shadow_take(a->s, block, acre_heap_malloc(a->s->f.h, bytes), bytes);
        }
    }
}

/* Ends a schedule after which all blocks are freed. Returns 1 if there was a fault, and describes
 * it. */
static int shadow_verdict(struct shadow *s, char *what, size_t what_bytes) {
    if (!s->fault && heap_wrong_frees(&s->f))
        s->fault = "the heap counted a correct free as wrong";
    if (!s->fault)
        s->fault = heap_fault(s->f.h);
    snprintf(what, what_bytes, "%s", s->fault ? s->fault : "");
    int is_fault = s->fault != NULL;
    shadow_end(s);
    return is_fault;
}

/* Uses one segment, so that blocks of 20 KiB and more run out and slabs are created and released
 * often. */
static int heap_scenario(uint64_t seed, char *what, unsigned what_bytes) {
    static const size_t units[] = {16, 600, 5000, 16384, 20000, 40000, 200000};
    struct shadow s;
    struct actor actors[THREADS];
    struct acre__vthread threads[THREADS];
    uint64_t draw = seed;
    shadow_begin(&s, 1, 2);
    memset(actors, 0, sizeof actors);
    passed = (struct block){NULL, 0, 0};
    for (int i = 0; i < THREADS; i++) {
        actors[i].s = &s;
        actors[i].seed = heap_random(&draw);
        actors[i].unit = units[heap_random(&draw) % 7];
        threads[i] = (struct acre__vthread){act, &actors[i]};
    }
    if (acre__sched_run(seed, threads, THREADS) != ACRE__SCHED_DONE)
        s.fault = "the threads are stuck";
    if (!s.fault)
        s.fault = heap_fault(s.f.h);
    for (int i = 0; i < THREADS * HELD && !s.fault; i++)
        shadow_free(&s, &actors[i / HELD].held[i % HELD]);
    if (!s.fault)
        shadow_free(&s, &passed);
    acre__heap_flush(acre__heap_of(s.f.h), s.f.h.control->flushes);
    acre__heap_clear_desks(acre__heap_of(s.f.h));
    if (!s.fault && s.f.h.segments[0].free_pages != 0xffffffffu)
        s.fault = "all blocks are freed, but not all pages are free";
    return shadow_verdict(&s, what, what_bytes);
}

TEST(heap_schedules_find_no_fault) {
    uint64_t first = 0;
    assert_int_equal(schedule_try("heap", heap_scenario, &first), 0);
}

/* ---- hints ---- */

/* Each of two threads adds its slab of one segment to the tree and removes it, and claims and
 * releases pages of the segment. A slab that is added at the end must be found. */
static void act_on_hints(void *user) {
    struct actor *a = user;
    acre_heap_handle h = a->s->f.h;
    for (int i = 0; i < 4; i++) {
        uint32_t page =
            acre__heap_take_in(acre__heap_of(h), 0, 1 + (uint32_t)a->unit * 15, 0xffffffffu, 0);
        acre__heap_tier_set(ACRE__HEAP_SOME, 3, (uint32_t)a->unit, acre__heap_of(h));
        if (page != ACRE__HEAP_NONE)
            acre__heap_release(acre__heap_of(h), page, 1 + (uint32_t)a->unit * 15);
        if (i < 3 || a->unit)
            (void)acre__heap_tier_clear(acre__heap_of(h), ACRE__HEAP_SOME, 3, (uint32_t)a->unit);
    }
}

static int hint_scenario(uint64_t seed, char *what, unsigned what_bytes) {
    struct shadow s;
    struct actor actors[2];
    struct acre__vthread threads[2];
    shadow_begin(&s, 1, 2);
    memset(actors, 0, sizeof actors);
    for (unsigned i = 0; i < 2; i++) {
        actors[i].s = &s;
        actors[i].unit = i;
        threads[i] = (struct acre__vthread){act_on_hints, &actors[i]};
    }
    if (acre__sched_run(seed, threads, 2) != ACRE__SCHED_DONE)
        s.fault = "the threads are stuck";
    if (!heap_tree_has(s.f.h, acre__heap_tier_tree(ACRE__HEAP_SOME, 3), 0))
        s.fault = "a slab with free slots is in no tree";
    if (!s.fault)
        s.fault = heap_fault(s.f.h);
    snprintf(what, what_bytes, "%s", s.fault ? s.fault : "");
    shadow_end(&s);
    return s.fault != NULL;
}

TEST(heap_hints_are_never_lost) {
    uint64_t first = 0;
    assert_int_equal(schedule_try("hints", hint_scenario, &first), 0);
}

/* ---- the end of a slab ---- */

/* Two threads allocate and free blocks of one slab, which an arena holds and whose other slots are
 * free. So one thread often retires the slab while the other one reserves a slot of it. */
static void act_on_last(void *user) {
    struct actor *a = user;
    for (int i = 0; i < 4 && !a->s->fault; i++) {
        if (a->held[0].p) {
            struct block mine = a->held[0];
            a->held[0].p = NULL;
            shadow_free(a->s, &mine);
        }
        shadow_take(a->s, &a->held[0], acre_heap_malloc(a->s->f.h, a->unit), a->unit);
    }
}

static int last_scenario(uint64_t seed, char *what, unsigned what_bytes) {
    enum { MOST = 64, BYTES = 20000 };
    struct shadow s;
    struct actor actors[2];
    struct acre__vthread threads[2];
    struct block blocks[MOST];
    shadow_begin(&s, 1, 2);
    memset(actors, 0, sizeof actors);
    shadow_take(&s, &blocks[0], acre_heap_malloc(s.f.h, BYTES), BYTES);
    uint32_t page = (uint32_t)((size_t)((char *)blocks[0].p - s.f.h.base) >> ACRE__HEAP_PAGE_LOG2);
    uint32_t cap = ACRE__HEAP_CAP(acre__heap_page_of(acre__heap_of(s.f.h), page)->freed);
    assert_in_range(cap, 2, MOST);
    for (uint32_t i = 1; i < cap; i++)
        shadow_take(&s, &blocks[i], acre_heap_malloc(s.f.h, BYTES), BYTES);
    for (uint32_t i = 1; i < cap; i++)
        shadow_free(&s, &blocks[i]);
    for (unsigned i = 0; i < 2; i++) {
        actors[i].s = &s;
        actors[i].unit = BYTES;
        threads[i] = (struct acre__vthread){act_on_last, &actors[i]};
    }
    actors[0].held[0] = blocks[0];
    shadow_take(&s, &actors[1].held[0], acre_heap_malloc(s.f.h, BYTES), BYTES);
    if (acre__sched_run(seed, threads, 2) != ACRE__SCHED_DONE)
        s.fault = "the threads are stuck";
    if (!s.fault)
        s.fault = heap_fault(s.f.h);
    for (int i = 0; i < 2 && !s.fault; i++)
        shadow_free(&s, &actors[i].held[0]);
    return shadow_verdict(&s, what, what_bytes);
}

TEST(heap_slabs_end_once) {
    uint64_t first = 0;
    assert_int_equal(schedule_try("last", last_scenario, &first), 0);
}

int main(void) {
    return tests_run("heap_model");
}
