/* Suspends against a shadow model: blocks, vecs and other objects are allocated, filled, freed and
 * suspended in parts at random, over many cycles. And suspends under many schedules: virtual
 * threads allocate, copy and free while another one suspends and resumes. Whatever the order:
 * contents are the model's, nothing leaks, nothing hangs, and the vector clocks report nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/cases.h"
#include "acre.h"
#include "base/atomic.h"
#include "soft/sched.h"
#include "soft/soft.h"
#include "schedule.h"
#include "support/rounds.h"
#include "support/random.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define ok(call) assert_int_equal((call), ACRE_OK)

static acre_device *device_open(uint64_t seed) {
    acre_open_options options = {
        .struct_size = sizeof options, .soft_bytes = 256 * MIB, .soft_devices = 1};
    acre_device *device = NULL;
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)seed);
    setenv("ACRE_SOFT_SEED", text, 1);
    setenv("ACRE_COPY_STAGE_BYTES", "1GiB", 1); /* staging has threads, which no seed orders */
    ok(acre_open("soft", &options, &device));
    return device;
}

static void device_close(acre_device *device) {
    acre_device_stats stats = {.struct_size = sizeof stats};
    char what[512] = "";
    ok(acre_trim(device));
    if (acre__soft_reports(what, sizeof what))
        fail_msg("%s", what);
    ok(acre_device_get_stats(device, &stats));
    assert_int_equal(stats.chunks + stats.limbo_count + stats.suspended_bytes, 0);
    ok(acre_close(device));
    unsetenv("ACRE_SOFT_SEED");
}

/* ---- the shadow model ---- */

enum { POOLS = 2, OBJECTS = 16, SUSPENDS = 3, STAMP = 256 };

enum kind { NONE, BLOCK, VEC, MEM }; /* vecs and MEM have chunks of their own */

struct object {
    enum kind kind;
    acre_pool *pool;
    acre_vec *vec;
    char *p;
    size_t bytes;
    int value; /* of all bytes at both ends; -1: undefined */
    int away;  /* number of its suspend + 1; 0: on the device */
    int is_dropped;
};

struct suspend {
    acre_suspended *handle; /* NULL: not in use */
    int is_whole;
};

struct shadow {
    acre_device *device;
    acre_pool *pools[POOLS];
    struct object objects[OBJECTS];
    struct suspend suspends[SUSPENDS];
    uint64_t random;
    uint64_t cycles, refused, dropped, kept, freed_away;
};

static uint64_t draw(struct shadow *s, uint64_t below) {
    return random_draw(&s->random, below);
}

static int is_whole(const struct shadow *s) {
    for (int i = 0; i < SUSPENDS; i++)
        if (s->suspends[i].handle && s->suspends[i].is_whole)
            return 1;
    return 0;
}

/* 1 if a call on the pool must be refused, as far as the model knows. */
static int pool_is_away(const struct shadow *s, const acre_pool *pool) {
    for (int i = 0; i < OBJECTS; i++)
        if (s->objects[i].kind == BLOCK && s->objects[i].pool == pool && s->objects[i].away)
            return 1;
    return is_whole(s);
}

static void object_stamp(struct shadow *s, struct object *o, int value) {
    size_t stamp = o->bytes < STAMP ? o->bytes : STAMP;
    ok(acre_fill(s->device, o->p, (uint8_t)value, stamp, NULL));
    ok(acre_fill(s->device, o->p + o->bytes - stamp, (uint8_t)value, stamp, NULL));
    o->value = value;
}

static void object_check(struct shadow *s, const struct object *o) {
    unsigned char found[STAMP];
    size_t stamp = o->bytes < STAMP ? o->bytes : STAMP;
    for (int end = 0; end < 2 && o->value >= 0; end++) {
        ok(acre_copy_sync(s->device, found, end ? o->p + o->bytes - stamp : o->p, stamp));
        for (size_t i = 0; i < stamp; i++)
            if (found[i] != o->value)
                fail_msg("cycle %llu: an object of kind %d with %zu bytes holds %u, not %d",
                         (unsigned long long)s->cycles, (int)o->kind, o->bytes, found[i], o->value);
    }
}

static acre_status object_make(struct shadow *s, struct object *o) {
    void *p = NULL;
    acre_status status;
    if (o->kind == BLOCK) {
        o->pool = s->pools[draw(s, POOLS)];
        o->bytes = 1 + draw(s, draw(s, 8) ? 4000 : 600 * KIB);
        status = acre_pool_alloc(o->pool, o->bytes, 0, NULL, &p);
    } else if (o->kind == VEC) {
        o->bytes = 1 + draw(s, 64 * KIB);
        ok(acre_vec_create(s->device, 1, NULL, &o->vec));
        status = acre_vec_grow(o->vec, o->bytes, NULL);
        p = acre_vec_data(o->vec);
        if (status)
            ok(acre_vec_destroy(o->vec, NULL));
    } else {
        o->bytes = 2 * MIB + draw(s, 64 * KIB);
        status = acre_mem_alloc(s->device, ACRE_KIND_DEVICE, o->bytes, 0, &p);
    }
    o->p = p;
    return status;
}

static void step_make(struct shadow *s, struct object *o) {
    unsigned chosen = (unsigned)draw(s, 64);
    *o = (struct object){.kind = chosen < 54 ? BLOCK : chosen < 63 ? VEC : MEM};
    acre_status status = object_make(s, o);
    int must_refuse = o->kind == BLOCK ? pool_is_away(s, o->pool) : is_whole(s);
    if (status == ACRE_E_SUSPENDED && (must_refuse || o->kind == BLOCK)) {
        s->refused++;
        o->kind = NONE;
        return;
    }
    ok(status);
    assert_false(must_refuse);
    object_stamp(s, o, (int)draw(s, 256));
}

static void step_free(struct shadow *s, struct object *o) {
    s->freed_away += o->away != 0;
    if (o->kind == BLOCK)
        ok(acre_pool_free(o->pool, o->p, NULL));
    else if (o->kind == VEC)
        ok(acre_vec_destroy(o->vec, NULL));
    else
        ok(acre_mem_free(s->device, o->p));
    o->kind = NONE;
}

static void step_use(struct shadow *s, struct object *o) {
    if (o->away) {
        assert_int_equal(acre_fill(s->device, o->p, 1, o->bytes, NULL), ACRE_E_SUSPENDED);
        return;
    }
    object_check(s, o);
    object_stamp(s, o, (int)draw(s, 256));
}

/* Asks acre which objects left. Those that the rule names must have. */
static void suspended_note(struct shadow *s, int number, const acre_suspend_rule *rule,
                           acre_suspend_how how) {
    for (int i = 0; i < OBJECTS; i++) {
        struct object *o = &s->objects[i];
        char byte;
        if (o->kind == NONE || o->away)
            continue;
        int is_meant = s->suspends[number].is_whole || (rule->pool && rule->pool == o->pool) ||
                       (rule->object && rule->object == o->p && o->kind != BLOCK);
        acre_status status = acre_copy_sync(s->device, &byte, o->p, 1);
        assert_true(status == ACRE_OK || status == ACRE_E_SUSPENDED);
        assert_true(!is_meant || status == ACRE_E_SUSPENDED);
        o->away = status ? number + 1 : 0;
        o->is_dropped = status && how == ACRE_SUSPEND_DROP;
        s->dropped += (uint64_t)o->is_dropped;
    }
}

static void step_suspend(struct shadow *s, int number) {
    const struct object *o = &s->objects[draw(s, OBJECTS)];
    acre_suspend_how how = draw(s, 4) ? ACRE_SUSPEND_KEEP : ACRE_SUSPEND_DROP;
    acre_suspend_rule rule = {.struct_size = sizeof rule, .how = how};
    acre_suspend_options options = {.struct_size = sizeof options,
                                    .flags = draw(s, 2) ? ACRE_SUSPEND_RETAIN : 0};
    unsigned chosen = (unsigned)draw(s, 4);
    s->suspends[number].is_whole = chosen == 0;
    if (chosen == 0) {
        options.how = how;
    } else {
        options.how = ACRE_SUSPEND_STAY;
        options.rules = &rule;
        options.rule_count = 1;
        rule.pool = chosen < 3 ? s->pools[chosen - 1] : NULL;
        /* Not a single block: if it is in two chunks, two suspends may have a half each. */
        rule.object = chosen < 3 ? NULL : o->kind < VEC ? (const void *)s : o->p;
    }
    acre_status status = acre_suspend(s->device, &options, &s->suspends[number].handle);
    if (status == ACRE_E_SUSPENDED && is_whole(s))
        return;
    ok(status);
    s->cycles++;
    suspended_note(s, number, &rule, how);
}

static void step_resume(struct shadow *s, int number) {
    ok(acre_resume(s->suspends[number].handle));
    s->suspends[number].handle = NULL;
    for (int i = 0; i < OBJECTS; i++) {
        struct object *o = &s->objects[i];
        if (o->kind == NONE || o->away != number + 1)
            continue;
        o->away = 0;
        if (o->is_dropped)
            o->value = -1;
        s->kept += !o->is_dropped;
        object_check(s, o);
    }
}

static void shadow_step(struct shadow *s) {
    struct object *o = &s->objects[draw(s, OBJECTS)];
    int number = (int)draw(s, SUSPENDS);
    unsigned chosen = (unsigned)draw(s, 10);
    if (chosen < 4 && o->kind == NONE)
        step_make(s, o);
    else if (chosen < 2 && o->kind != NONE)
        step_free(s, o);
    else if (chosen < 6 && o->kind != NONE)
        step_use(s, o);
    else if (chosen >= 6 && s->suspends[number].handle)
        step_resume(s, number);
    else if (chosen >= 6)
        step_suspend(s, number);
}

static void shadow_end(struct shadow *s) {
    for (int i = 0; i < SUSPENDS; i++)
        if (s->suspends[i].handle)
            step_resume(s, i);
    for (int i = 0; i < OBJECTS; i++)
        if (s->objects[i].kind != NONE) {
            object_check(s, &s->objects[i]);
            step_free(s, &s->objects[i]);
        }
    for (int i = 0; i < POOLS; i++)
        ok(acre_pool_destroy(s->pools[i], NULL, NULL));
    device_close(s->device);
}

TEST(suspends_over_many_cycles_match_the_shadow) {
    struct shadow s = {.random = random_seed("suspends_over_many_cycles")};
    uint64_t wanted = ROUNDS(10000, 500);
    s.device = device_open(s.random);
    for (int i = 0; i < POOLS; i++)
        ok(acre_pool_create(s.device, NULL, &s.pools[i]));
    while (s.cycles < wanted)
        shadow_step(&s);
    print_message("%llu suspends: %llu objects kept, %llu dropped, %llu freed while away, %llu "
                  "allocations refused\n",
                  (unsigned long long)s.cycles, (unsigned long long)s.kept,
                  (unsigned long long)s.dropped, (unsigned long long)s.freed_away,
                  (unsigned long long)s.refused);
    assert_true(s.kept && s.dropped && s.freed_away && s.refused);
    shadow_end(&s);
}

/* ---- schedules ---- */

enum { THREADS = 8, STEPS = 12, HELD = 3, SUSPENDS_OF_A_RUN = 4, TOUCHED = 128 };

struct world {
    acre_device *device;
    acre_pool *pool;
    int is_waiting; /* calls wait: none may be refused */
    uint64_t seed;
    uint64_t order;
    _Atomic int failures, left;
    uint64_t refused, suspends;
    char what[256];
};

struct walker {
    struct world *world;
    acre_stream stream;
    uint64_t random;
    unsigned number;
    char *held[HELD];
    size_t bytes[HELD];
    unsigned char values[HELD];
};

static void world_fail(struct world *world, const char *what) {
    acre__fetch_add(&world->failures, 1, memory_order_relaxed);
    snprintf(world->what, sizeof world->what, "%s: %s", what, acre_last_detail());
}

/* Calls until it is not refused for a suspend. */
static int is_done(struct walker *self, acre_status status, const char *what) {
    struct world *world = self->world;
    if (status == ACRE_E_SUSPENDED && !world->is_waiting) {
        world->refused++;
        return 0;
    }
    if (status)
        world_fail(world, what);
    return status == ACRE_OK;
}

static void walker_alloc(struct walker *self, unsigned i) {
    void *p = NULL;
    size_t bytes = 1 + random_draw(&self->random, random_draw(&self->random, 4) ? 3000 : 600 * KIB);
    if (!is_done(self, acre_pool_alloc(self->world->pool, bytes, 0, self->stream, &p), "alloc"))
        return;
    self->values[i] = (unsigned char)random_draw(&self->random, 256);
    self->held[i] = p;
    self->bytes[i] = bytes < TOUCHED ? bytes : TOUCHED;
    while (
        !is_done(self,
                 acre_fill(self->world->device, p, self->values[i], self->bytes[i], self->stream),
                 "fill") &&
        !atomic_load(&self->world->failures))
        acre__soft_sched_border();
}

static void walker_check(struct walker *self, unsigned i) {
    unsigned char found[TOUCHED];
    acre_device *device = self->world->device;
    if (!is_done(self, acre_copy(device, found, self->held[i], self->bytes[i], self->stream),
                 "copy"))
        return;
    if (acre_stream_sync(device, self->stream))
        world_fail(self->world, "sync");
    for (size_t k = 0; k < self->bytes[i]; k++)
        if (found[k] != self->values[i]) {
            world_fail(self->world, "wrong contents");
            return;
        }
}

static void walker_free(struct walker *self, unsigned i) {
    if (acre_pool_free(self->world->pool, self->held[i], self->stream))
        world_fail(self->world, "free");
    self->held[i] = NULL;
}

static void walker_run(void *user) {
    struct walker *self = user;
    for (int step = 0; step < STEPS; step++) {
        unsigned i = (unsigned)random_draw(&self->random, HELD);
        self->world->order = self->world->order * 31 + self->number;
        if (!self->held[i])
            walker_alloc(self, i);
        else if (random_draw(&self->random, 2))
            walker_check(self, i);
        else
            walker_free(self, i);
    }
    for (unsigned i = 0; i < HELD; i++)
        if (self->held[i]) {
            walker_check(self, i);
            walker_free(self, i);
        }
    acre__fetch_sub(&self->world->left, 1, memory_order_relaxed);
}

static void suspender_run(void *user) {
    struct walker *self = user;
    struct world *world = self->world;
    for (int i = 0; i < SUSPENDS_OF_A_RUN; i++) {
        acre_suspend_rule rule = {.struct_size = sizeof rule, .pool = world->pool};
        acre_suspend_options options = {.struct_size = sizeof options};
        acre_suspended *suspended = NULL;
        options.flags = (world->is_waiting ? ACRE_SUSPEND_WAIT : 0u) |
                        (random_draw(&self->random, 2) ? ACRE_SUSPEND_RETAIN : 0u);
        if (random_draw(&self->random, 2)) {
            options.how = ACRE_SUSPEND_STAY;
            options.rules = &rule;
            options.rule_count = 1;
        }
        if (acre_suspend(world->device, &options, &suspended)) {
            world_fail(world, "suspend");
            return;
        }
        world->suspends++;
        for (uint64_t naps = random_draw(&self->random, 20); naps; naps--)
            acre__soft_sched_border();
        if (acre_resume(suspended))
            world_fail(world, "resume");
    }
}

static void world_run(struct world *world, uint64_t seed) {
    struct walker walkers[THREADS + 1];
    struct acre__vthread threads[THREADS + 1];
    *world = (struct world){.device = device_open(seed), .seed = seed, .is_waiting = seed % 2};
    ok(acre_pool_create(world->device, NULL, &world->pool));
    ok(acre_soft_set_lag(world->device, seed % 4 < 2 ? 0 : 32, 0));
    for (unsigned i = 0; i <= THREADS; i++) {
        walkers[i] = (struct walker){.world = world, .random = 1000 * seed + i, .number = i};
        ok(acre_stream_create(world->device, ACRE_STREAM_NON_BLOCKING, &walkers[i].stream));
        threads[i] = (struct acre__vthread){i < THREADS ? walker_run : suspender_run, &walkers[i]};
    }
    enum acre__sched_end end = acre__sched_run(seed, threads, THREADS + 1);
    if (end != ACRE__SCHED_DONE || atomic_load(&world->failures))
        fail_msg("ACRE_TEST_SEED=%llu: %s", (unsigned long long)seed,
                 end == ACRE__SCHED_STUCK ? "deadlock" : world->what);
    for (unsigned i = 0; i <= THREADS; i++)
        ok(acre_stream_destroy(world->device, walkers[i].stream));
    ok(acre_pool_destroy(world->pool, NULL, NULL));
    device_close(world->device);
}

TEST(suspends_under_any_schedule_lose_nothing) {
    uint64_t end, begin = schedule_seeds(ROUNDS(200, 40), &end);
    uint64_t refused = 0, suspends = 0;
    for (uint64_t seed = begin; seed < end; seed++) {
        struct world world;
        world_run(&world, seed);
        refused += world.refused;
        suspends += world.suspends;
    }
    print_message("%llu suspends, %llu calls refused\n", (unsigned long long)suspends,
                  (unsigned long long)refused);
    assert_true(refused || end - begin == 1);
}

int main(void) {
    return tests_run("suspend_model");
}
