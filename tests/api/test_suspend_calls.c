/* Calls while memory is suspended, on every device: frees succeed; calls that need the memory
 * return ACRE_E_SUSPENDED and change nothing, or wait for acre_resume. */
#include <pthread.h>
#include <stdatomic.h>

#include "acre_heap.h"
#include "api_range.h"
#include "api_suspend.h"
#include "support/leave.h"

/* ---- frees ---- */

struct objects {
    acre_device *device;
    acre_pool *pool, *doomed;
    char *small[8], *large[4], *in_doomed;
    char *mem[2];
    acre_vec *vec[2];
    acre_range *range[2];
    acre_plan *plan;
    acre_heap *heap[2];
};

static struct objects objects_make(acre_device *device) {
    struct objects o = {
        .device = device, .pool = pool_make(device, 0), .doomed = pool_make(device, 0)};
    acre_plan_options plan = {.struct_size = sizeof plan, .device_bytes = 2 * MIB};
    acre_heap_options heap = {.struct_size = sizeof heap, .limit_bytes = 16 * MIB};
    for (int i = 0; i < 8; i++)
        o.small[i] = block_make(device, o.pool, 5000, 1);
    for (int i = 0; i < 4; i++)
        o.large[i] = block_make(device, o.pool, 3 * MIB, 2);
    o.in_doomed = block_make(device, o.doomed, 3 * MIB, 3);
    for (int i = 0; i < 2; i++) {
        o.mem[i] = mem_of(device, 3 * MIB, 4);
        o.vec[i] = vec_of(device, 3 * MIB, 5);
        o.range[i] = range_in(device, NULL, 4);
        api_ok(piece_commit(o.range[i], 0, 4, NULL));
        put(device, piece_at(o.range[i], 0), 4 * piece, 6);
    }
    api_ok(acre_plan_create(device, &plan, &o.plan));
    for (int i = 0; i < 2; i++)
        api_ok(acre_heap_create(device, &heap, &o.heap[i]));
    return o;
}

/* Frees every other one. */
static void objects_free_half(struct objects *o) {
    for (int i = 0; i < 8; i += 2)
        api_ok(acre_pool_free(o->pool, o->small[i], NULL));
    for (int i = 0; i < 4; i += 2)
        api_ok(acre_pool_free(o->pool, o->large[i], NULL));
    api_ok(acre_pool_free(o->doomed, o->in_doomed, NULL));
    api_ok(acre_pool_destroy(o->doomed, NULL, NULL));
    api_ok(acre_mem_free(o->device, o->mem[0]));
    api_ok(acre_vec_destroy(o->vec[0], NULL));
    api_ok(piece_decommit(o->range[1], 1, 2, NULL));
    api_ok(acre_range_destroy(o->range[0], NULL));
    api_ok(acre_plan_destroy(o->plan));
    api_ok(acre_heap_destroy(o->heap[0], NULL, NULL));
}

static void objects_check_half(const struct objects *o) {
    for (int i = 1; i < 8; i += 2)
        assert_true(has(o->device, o->small[i], 5000, 1));
    for (int i = 1; i < 4; i += 2)
        assert_true(has(o->device, o->large[i], 3 * MIB, 2));
    assert_true(has(o->device, o->mem[1], 3 * MIB, 4));
    assert_true(has(o->device, acre_vec_data(o->vec[1]), 3 * MIB, 5));
    unsigned char *words = words_make(piece_at(o->range[1], 0), 4 * piece, 6), found[256];
    for (uint64_t i = 0; i < 4; i += 3) {
        api_ok(acre_copy_sync(o->device, found, piece_at(o->range[1], i), sizeof found));
        assert_memory_equal(found, words + i * piece, sizeof found);
    }
    free(words);
}

static void objects_end(struct objects *o) {
    for (int i = 1; i < 8; i += 2)
        api_ok(acre_pool_free(o->pool, o->small[i], NULL));
    for (int i = 1; i < 4; i += 2)
        api_ok(acre_pool_free(o->pool, o->large[i], NULL));
    api_ok(acre_pool_destroy(o->pool, NULL, NULL));
    api_ok(acre_mem_free(o->device, o->mem[1]));
    api_ok(acre_vec_destroy(o->vec[1], NULL));
    api_ok(acre_range_destroy(o->range[1], NULL));
    api_ok(acre_heap_destroy(o->heap[1], NULL, NULL));
    expect_nothing_left(o->device);
}

static void frees_while_suspended(acre_device *device, uint32_t flags, int is_trimmed) {
    struct objects o = objects_make(device);
    acre_suspend_options options = suspend_options(ACRE_SUSPEND_KEEP, flags);
    acre_suspended *suspended = suspend_with(device, &options);
    uint64_t away = api_stats(device).suspended_bytes;
    objects_free_half(&o);
    if (is_trimmed) {
        api_ok(acre_trim(device));
        api_ok(acre_pool_trim(o.pool, 0));
        api_ok(acre_range_trim(o.range[1], 0));
    }
    acre_device_stats stats = api_stats(device);
    assert_true(stats.suspended_bytes < away);
    assert_int_equal(stats.chunk_bytes, 0); /* what was freed has not come back */
    assert_int_equal(stats.ranges, 1);
    api_ok(acre_resume(suspended));
    assert_int_equal(api_stats(device).suspended_bytes, 0);
    objects_check_half(&o);
    /* The pool reuses what was freed meanwhile. */
    char *again = block_make(device, o.pool, 3 * MIB, 9);
    assert_true(has(device, again, 3 * MIB, 9));
    api_ok(acre_pool_free(o.pool, again, NULL));
    api_ok(piece_commit(o.range[1], 0, 4, NULL));
    put(device, piece_at(o.range[1], 1), piece, 7);
    assert_true(has(device, piece_at(o.range[1], 1), piece, 7));
    objects_end(&o);
}

API_TEST(suspended_memory_can_be_freed) {
    frees_while_suspended(device, 0, 0);
    frees_while_suspended(device, ACRE_SUSPEND_WAIT | ACRE_SUSPEND_RETAIN, 1);
}

/* Everything is freed: nothing comes back. */
API_TEST(suspended_memory_that_is_all_freed_does_not_come_back) {
    acre_vec *vec = vec_of(device, 8 * MIB, 1);
    char *mem = mem_of(device, 8 * MIB, 2);
    acre_pool *pool = pool_make(device, 0);
    char *block = block_make(device, pool, 8 * MIB, 3);
    acre_suspended *suspended = suspend_whole(device);
    api_ok(acre_vec_destroy(vec, NULL));
    api_ok(acre_mem_free(device, mem));
    api_ok(acre_pool_free(pool, block, NULL));
    api_ok(acre_pool_destroy(pool, NULL, NULL));
    assert_int_equal(api_stats(device).suspended_bytes, 0);
    uint64_t creates = api_stats(device).driver_creates;
    api_ok(acre_resume(suspended));
    assert_int_equal(api_stats(device).driver_creates, creates);
    expect_nothing_left(device);
}

/* Another block may get the addresses of one that was freed while away: its contents stay. */
API_TEST(suspended_and_freed_block_does_not_overwrite_its_successor) {
    char *mem[4], *again[4];
    acre_suspended *suspended[4];
    for (int i = 0; i < 4; i++)
        mem[i] = mem_of(device, 4 * MIB, 1);
    for (int i = 0; i < 4; i++)
        suspended[i] = suspend_part(device, RULE(.object = mem[i]), 0);
    for (int i = 0; i < 4; i++)
        api_ok(acre_mem_free(device, mem[i]));
    for (int i = 0; i < 4; i++)
        again[i] = mem_of(device, 4 * MIB, 2);
    for (int i = 0; i < 4; i++)
        api_ok(acre_resume(suspended[i]));
    for (int i = 0; i < 4; i++) {
        assert_true(has(device, again[i], 4 * MIB, 2));
        api_ok(acre_mem_free(device, again[i]));
    }
    expect_nothing_left(device);
}

static void close_while_suspended(const char *name, uint32_t flags) {
    acre_device *device = api_open(name);
    uint64_t free_bytes = api_free_bytes(device);
    struct objects o = objects_make(device);
    acre_suspend_options options = suspend_options(ACRE_SUSPEND_KEEP, flags);
    acre_suspended *suspended = suspend_with(device, &options);
    objects_free_half(&o);
    acre_log_set(NULL, NULL, ACRE_LOG_ERROR);
    api_ok(acre_close(device)); /* logs the objects that are left */
    acre_log_set(NULL, NULL, ACRE_LOG_WARN);
    api_expect(acre_resume(suspended), ACRE_E_HANDLE);
    device = api_open(name);
    assert_int_equal(api_stats(device).suspended_bytes + api_stats(device).chunks, 0);
    api_expect_free(device, free_bytes);
    char *mem = mem_of(device, 4 * MIB, 1);
    assert_true(has(device, mem, 4 * MIB, 1));
    api_ok(acre_mem_free(device, mem));
    api_ok(acre_close(device));
}

TEST(suspended_device_can_be_closed) {
    for (API_EACH(name))
        for (uint32_t flags = 0; flags < 4; flags++)
            close_while_suspended(name, flags);
}

/* ---- calls that need memory ---- */

static acre_status export_of(acre_device *device, void *p) {
    int fds[8];
    uint64_t bytes[8];
    size_t count = 0;
    acre_status status = acre_share_export_fds(device, p, 8, fds, bytes, &count);
    for (size_t i = 0; status == ACRE_OK && i < count; i++)
        close(fds[i]);
    return status;
}

/* Calls on memory that is away. */
static void touches_are_refused(struct objects *o) {
    char page[64] = {0};
    void *p = o->small[1];
    api_expect(acre_copy(o->device, page, o->small[0], 64, NULL), ACRE_E_SUSPENDED);
    assert_non_null(strstr(acre_last_detail(), "acre_resume"));
    api_expect(acre_copy(o->device, o->mem[0] + MIB, page, 64, NULL), ACRE_E_SUSPENDED);
    api_expect(acre_copy_sync(o->device, page, acre_vec_data(o->vec[0]), 64), ACRE_E_SUSPENDED);
    api_expect(acre_copy_as(o->device, ACRE_DEVICE_TO_DEVICE, o->large[0], o->large[1], 64, NULL),
               ACRE_E_SUSPENDED);
    api_expect(acre_copy_2d(o->device, page, 8, o->large[2], 4096, 8, 8, NULL), ACRE_E_SUSPENDED);
    api_expect(acre_fill(o->device, piece_at(o->range[0], 1), 1, 64, NULL), ACRE_E_SUSPENDED);
    api_expect(acre_fill_sync(o->device, o->large[1], 1, 64), ACRE_E_SUSPENDED);
    api_ok(acre_fill(o->device, o->large[1], 1, 0, NULL)); /* no bytes */
    api_expect(acre_pool_realloc(o->pool, o->small[1], 9000, NULL, &p), ACRE_E_SUSPENDED);
    api_expect(acre_pool_realloc(o->pool, o->large[1], 30 * MIB, NULL, &p), ACRE_E_SUSPENDED);
    api_expect(acre_mem_realloc(o->device, o->mem[1], 30 * MIB, NULL, &p), ACRE_E_SUSPENDED);
    api_expect(acre_vec_append(o->vec[1], page, 64, NULL), ACRE_E_SUSPENDED);
    api_expect(export_of(o->device, o->mem[1]), ACRE_E_SUSPENDED);
}

/* Calls that allocate, if everything is suspended. */
static void allocations_are_refused(struct objects *o) {
    void *p = o;
    acre_heap *heap = NULL;
    acre_heap_stats stats = {.struct_size = sizeof stats};
    acre_vm_chunk *chunk = NULL;
    acre_plan *plan = NULL;
    acre_plan_options options = {.struct_size = sizeof options, .device_bytes = MIB};
    acre_pool_options pool_options = {.struct_size = sizeof pool_options, .initial_bytes = 4 * MIB};
    acre_pool *pool = NULL;
    api_expect(acre_pool_alloc(o->pool, 256, 0, NULL, &p), ACRE_E_SUSPENDED);
    assert_null(p);
    api_expect(acre_pool_alloc(o->pool, 5 * MIB, 0, NULL, &p), ACRE_E_SUSPENDED);
    api_expect(acre_pool_alloc(o->pool, 5000, 0, NULL, &p), ACRE_E_SUSPENDED);
    api_expect(acre_alloc(o->device, 256, NULL, &p), ACRE_E_SUSPENDED);
    api_expect(acre_mem_alloc(o->device, ACRE_KIND_DEVICE, 256, 0, &p), ACRE_E_SUSPENDED);
    api_expect(acre_mem_alloc(o->device, ACRE_KIND_DEVICE, 5 * MIB, 0, &p), ACRE_E_SUSPENDED);
    assert_null(p);
    api_expect(acre_vec_grow(o->vec[1], 9 * MIB, NULL), ACRE_E_SUSPENDED);
    api_expect(acre_vec_resize(o->vec[1], 9 * MIB, NULL), ACRE_E_SUSPENDED);
    api_expect(piece_commit(o->range[1], 0, 1, NULL), ACRE_E_SUSPENDED);
    api_expect(acre_heap_grow(o->heap[1], 14 * MIB), ACRE_E_SUSPENDED);
    api_expect(acre_heap_get_stats(o->heap[1], &stats), ACRE_E_SUSPENDED);
    api_expect(acre_heap_reset(o->heap[1]), ACRE_E_SUSPENDED);
    api_expect(acre_heap_create(o->device, NULL, &heap), ACRE_E_SUSPENDED);
    api_expect(acre_plan_create(o->device, &options, &plan), ACRE_E_SUSPENDED);
    api_expect(acre_pool_create(o->device, &pool_options, &pool), ACRE_E_SUSPENDED);
    api_expect(acre_vm_create(o->device, 2 * MIB, 0, &chunk, NULL), ACRE_E_SUSPENDED);
    api_ok(acre_mem_alloc(o->device, ACRE_KIND_PINNED, 4096, 0, &p)); /* host memory */
    api_ok(acre_mem_free(o->device, p));
}

API_TEST(suspended_memory_is_not_touched_and_calls_change_nothing) {
    struct objects o = objects_make(device);
    acre_suspended *suspended = suspend_whole(device);
    acre_device_stats before = api_stats(device);
    acre_pool_stats pool = {.struct_size = sizeof pool}, after = {.struct_size = sizeof after};
    api_ok(acre_pool_get_stats(o.pool, &pool));
    touches_are_refused(&o);
    allocations_are_refused(&o);
    api_ok(acre_pool_get_stats(o.pool, &after));
    assert_int_equal(after.live_bytes, pool.live_bytes);
    assert_int_equal(after.live_blocks, pool.live_blocks);
    assert_int_equal(api_stats(device).suspended_bytes, before.suspended_bytes);
    assert_int_equal(api_stats(device).chunk_bytes, 0);
    assert_int_equal(api_stats(device).mem_blocks, before.mem_blocks);
    assert_int_equal(api_stats(device).limbo_count, 0);
    assert_int_equal(acre_vec_size(o.vec[1]), 3 * MIB);
    api_ok(acre_resume(suspended));
    objects_free_half(&o);
    objects_check_half(&o);
    objects_end(&o);
}

/* Queries need no memory. */
API_TEST(suspended_memory_is_still_known) {
    struct objects o = objects_make(device);
    acre_suspended *suspended = suspend_whole(device);
    acre_mem_info info = {.struct_size = sizeof info};
    api_ok(acre_mem_query(device, o.mem[0] + 5, &info));
    assert_ptr_equal(info.base, o.mem[0]);
    assert_int_equal(info.bytes, 3 * MIB);
    api_ok(acre_mem_query(device, o.large[1], &info));
    assert_int_equal(info.kind, ACRE_KIND_DEVICE);
    assert_int_equal(acre_pool_usable_size(o.pool, o.large[1]), 3 * MIB);
    assert_int_equal(acre_vec_size(o.vec[0]), 3 * MIB);
    assert_int_equal(range_stats(o.range[0]).committed_bytes, 4 * piece);
    api_ok(acre_device_sync(device));
    api_ok(acre_resume(suspended));
    objects_free_half(&o);
    objects_end(&o);
}

/* ---- waiting ---- */

struct waiter {
    acre_device *device;
    struct objects *o;
    acre_status (*call)(struct waiter *waiter);
    void *p;
    acre_status status;
    _Atomic int is_done;
    pthread_t thread;
    char page[64];
};

static void *waiter_run(void *user) {
    struct waiter *waiter = user;
    waiter->status = waiter->call(waiter);
    atomic_store(&waiter->is_done, 1);
    return NULL;
}

static acre_status wait_small(struct waiter *w) {
    return acre_pool_alloc(w->o->pool, 5000, 0, NULL, &w->p);
}

static acre_status wait_large(struct waiter *w) {
    return acre_pool_alloc(w->o->doomed, 6 * MIB, 0, NULL, &w->p);
}

static acre_status wait_mem(struct waiter *w) {
    return acre_mem_alloc(w->device, ACRE_KIND_DEVICE, 6 * MIB, 0, &w->p);
}

static acre_status wait_copy(struct waiter *w) {
    return acre_copy_sync(w->device, w->page, w->o->mem[1], sizeof w->page);
}

static acre_status wait_fill(struct waiter *w) {
    return acre_fill_sync(w->device, w->o->large[0], 77, 64);
}

static acre_status wait_grow(struct waiter *w) {
    return acre_vec_grow(w->o->vec[0], 9 * MIB, NULL);
}

static acre_status wait_append(struct waiter *w) {
    return acre_vec_append(w->o->vec[1], w->page, sizeof w->page, NULL);
}

static acre_status wait_commit(struct waiter *w) {
    return piece_commit(w->o->range[1], 0, 4, NULL);
}

static acre_status wait_realloc(struct waiter *w) {
    return acre_pool_realloc(w->o->pool, w->o->small[0], 40000, NULL, &w->p);
}

static acre_status wait_mem_realloc(struct waiter *w) {
    return acre_mem_realloc(w->device, w->o->mem[0], 40 * MIB, NULL, &w->p);
}

static acre_status wait_heap_create(struct waiter *w) {
    acre_heap_options options = {.struct_size = sizeof options, .limit_bytes = 16 * MIB};
    acre_heap *heap = NULL;
    acre_status status = acre_heap_create(w->device, &options, &heap);
    return status ? status : acre_heap_destroy(heap, NULL, NULL);
}

static acre_status wait_heap_grow(struct waiter *w) {
    return acre_heap_grow(w->o->heap[1], 14 * MIB);
}

static acre_status wait_plan(struct waiter *w) {
    acre_plan_options options = {.struct_size = sizeof options, .device_bytes = MIB};
    acre_plan *plan = NULL;
    acre_status status = acre_plan_create(w->device, &options, &plan);
    return status ? status : acre_plan_destroy(plan);
}

static acre_status wait_pool(struct waiter *w) {
    acre_pool_options options = {.struct_size = sizeof options, .initial_bytes = 4 * MIB};
    acre_pool *pool = NULL;
    acre_status status = acre_pool_create(w->device, &options, &pool);
    return status ? status : acre_pool_destroy(pool, NULL, NULL);
}

static acre_status wait_vm(struct waiter *w) {
    acre_vm_chunk *chunk = NULL;
    acre_status status = acre_vm_create(w->device, 2 * MIB, 0, &chunk, NULL);
    return status ? status : acre_vm_release(w->device, chunk);
}

static acre_status (*const waits[])(struct waiter *) = {
    wait_small,       wait_large,     wait_mem,    wait_copy,    wait_fill,
    wait_grow,        wait_append,    wait_commit, wait_realloc, wait_mem_realloc,
    wait_heap_create, wait_heap_grow, wait_plan,   wait_pool,    wait_vm};
enum { WAITS = sizeof waits / sizeof waits[0] };

static void waiters_check(struct waiter *waiters, struct objects *o) {
    unsigned char *words = words_make(o->mem[1], sizeof waiters[3].page, 4);
    assert_memory_equal(waiters[3].page, words, sizeof waiters[3].page);
    free(words);
    unsigned char found = 0;
    api_ok(acre_copy_sync(o->device, &found, o->large[0], 1));
    assert_int_equal(found, 77);
    assert_int_equal(acre_vec_size(o->vec[0]), 12 * MIB);
    assert_int_equal(acre_vec_size(o->vec[1]), 3 * MIB + 64);
    api_ok(acre_pool_free(o->pool, waiters[0].p, NULL));
    api_ok(acre_pool_free(o->doomed, waiters[1].p, NULL));
    api_ok(acre_mem_free(o->device, waiters[2].p));
    o->small[0] = waiters[8].p;
    o->mem[0] = waiters[9].p;
}

API_TEST(suspended_memory_with_wait_makes_calls_wait_for_resume) {
    struct objects o = objects_make(device);
    acre_suspend_options options = suspend_options(ACRE_SUSPEND_KEEP, ACRE_SUSPEND_WAIT);
    struct waiter waiters[WAITS];
    acre_suspended *suspended = suspend_with(device, &options);
    for (size_t i = 0; i < WAITS; i++) {
        waiters[i] = (struct waiter){.device = device, .o = &o, .call = waits[i]};
        assert_int_equal(pthread_create(&waiters[i].thread, NULL, waiter_run, &waiters[i]), 0);
    }
    sleep_ms(50);
    size_t early = WAITS;
    for (size_t i = 0; i < WAITS; i++)
        if (atomic_load(&waiters[i].is_done)) {
            early = i;
            print_error("call %zu returned %s\n", i, acre_status_name(waiters[i].status));
        }
    api_ok(acre_resume(suspended));
    for (size_t i = 0; i < WAITS; i++) {
        assert_int_equal(pthread_join(waiters[i].thread, NULL), 0);
        if (waiters[i].status)
            print_error("call %zu returned %s\n", i, acre_status_name(waiters[i].status));
        early = waiters[i].status ? i : early;
    }
    assert_int_equal(early, WAITS);
    waiters_check(waiters, &o);
    objects_free_half(&o);
    objects_end(&o);
}

/* A resume of another part does not end the wait for this one. */
API_TEST(suspended_memory_with_wait_waits_for_its_own_resume) {
    struct objects o = objects_make(device);
    acre_suspended *a = suspend_part(device, RULE(.object = o.mem[1]), ACRE_SUSPEND_WAIT);
    acre_suspended *b =
        suspend_part(device, RULE(.object = acre_vec_data(o.vec[0])), ACRE_SUSPEND_WAIT);
    struct waiter waiter = {.device = device, .o = &o, .call = wait_copy};
    assert_int_equal(pthread_create(&waiter.thread, NULL, waiter_run, &waiter), 0);
    sleep_ms(20);
    api_ok(acre_resume(b));
    sleep_ms(20);
    assert_int_equal(atomic_load(&waiter.is_done), 0);
    api_ok(acre_resume(a));
    assert_int_equal(pthread_join(waiter.thread, NULL), 0);
    api_ok(waiter.status);
    objects_free_half(&o);
    objects_check_half(&o);
    objects_end(&o);
}

/* Only calls on memory of the suspend that has the flag wait. */
API_TEST(suspended_memory_without_wait_is_refused_beside_memory_with_wait) {
    struct objects o = objects_make(device);
    acre_suspended *a =
        suspend_part(device, RULE(.object = acre_vec_data(o.vec[0])), ACRE_SUSPEND_WAIT);
    acre_suspended *b = suspend_part(device, RULE(.object = o.mem[1]), 0);
    acre_suspended *c = suspend_part(device, RULE(.pool = o.pool), 0);
    struct waiter waiters[2] = {{.device = device, .o = &o, .call = wait_copy},
                                {.device = device, .o = &o, .call = wait_small}};
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&waiters[i].thread, NULL, waiter_run, &waiters[i]), 0);
    int is_refused = becomes_true(&waiters[0].is_done) && becomes_true(&waiters[1].is_done);
    api_ok(acre_resume(b));
    api_ok(acre_resume(c));
    api_ok(acre_resume(a));
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(waiters[i].thread, NULL), 0);
    assert_true(is_refused);
    assert_int_equal(waiters[0].status, ACRE_E_SUSPENDED);
    assert_int_equal(waiters[1].status, ACRE_E_SUSPENDED);
    objects_free_half(&o);
    objects_end(&o);
}

/* ---- pools that check their blocks ---- */

API_TEST(suspended_pool_with_debug_keeps_its_red_zones_and_poison) {
    acre_pool *pool = pool_make(device, ACRE_POOL_DEBUG);
    acre_pool_stats stats = {.struct_size = sizeof stats};
    char *blocks[12];
    for (int i = 0; i < 12; i++)
        blocks[i] = block_make(device, pool, i < 6 ? 1000 : 3 * MIB + 5, 1);
    for (int i = 0; i < 12; i += 3)
        api_ok(acre_pool_free(pool, blocks[i], NULL));
    acre_suspended *suspended = suspend_whole(device);
    for (int i = 1; i < 12; i += 3)
        api_ok(acre_pool_free(pool, blocks[i], NULL)); /* cannot be checked now */
    api_ok(acre_resume(suspended));
    for (int i = 2; i < 12; i += 3) {
        assert_true(has(device, blocks[i], i < 6 ? 1000 : 3 * MIB + 5, 1));
        api_ok(acre_pool_free(pool, blocks[i], NULL));
    }
    for (int i = 0; i < 12; i++) /* from the blocks that were freed before, during and after */
        blocks[i] = block_make(device, pool, i < 6 ? 1000 : 3 * MIB + 5, 2);
    api_ok(acre_resume(suspend_whole(device)));
    for (int i = 0; i < 12; i++)
        api_ok(acre_pool_free(pool, blocks[i], NULL));
    api_ok(acre_pool_get_stats(pool, &stats));
    assert_int_equal(stats.overruns + stats.late_writes, 0);
    api_ok(acre_pool_destroy(pool, NULL, NULL));
    expect_nothing_left(device);
}

/* Contents that are dropped include what the pool wrote to check its blocks. */
API_TEST(suspended_pool_with_debug_reports_nothing_after_a_drop) {
    acre_pool *pool = pool_make(device, ACRE_POOL_DEBUG);
    acre_pool_stats stats = {.struct_size = sizeof stats};
    acre_suspend_options options = suspend_options(ACRE_SUSPEND_DROP, 0);
    char *a = block_make(device, pool, 1000, 1), *b = block_make(device, pool, 1000, 1);
    char *c = block_make(device, pool, 3 * MIB + 5, 1);
    api_ok(acre_pool_free(pool, a, NULL));
    api_ok(acre_resume(suspend_with(device, &options)));
    api_ok(acre_pool_free(pool, b, NULL));
    api_ok(acre_pool_free(pool, c, NULL));
    a = block_make(device, pool, 1000, 2);
    b = block_make(device, pool, 1000, 2);
    api_ok(acre_pool_free(pool, a, NULL));
    api_ok(acre_pool_free(pool, b, NULL));
    api_ok(acre_pool_get_stats(pool, &stats));
    assert_int_equal(stats.overruns + stats.late_writes, 0);
    api_ok(acre_pool_destroy(pool, NULL, NULL));
    expect_nothing_left(device);
}

/* The program has not written its blocks, but the pool has poisoned one that was freed. */
API_TEST(suspended_pool_with_debug_that_is_unchanged_keeps_its_poison) {
    acre_pool *pool = pool_make(device, ACRE_POOL_DEBUG);
    acre_pool_stats stats = {.struct_size = sizeof stats};
    acre_suspend_rule rule = RULE(.pool = pool);
    char *a = block_make(device, pool, 3 * MIB, 1), *b = block_make(device, pool, 3 * MIB, 2);
    api_ok(acre_resume(suspend_part(device, rule, ACRE_SUSPEND_RETAIN)));
    api_ok(acre_pool_free(pool, b, NULL));
    rule.is_unchanged = 1;
    api_ok(acre_resume(suspend_part(device, rule, ACRE_SUSPEND_RETAIN)));
    b = block_make(device, pool, 3 * MIB, 3);
    assert_true(has(device, a, 3 * MIB, 1));
    api_ok(acre_pool_free(pool, a, NULL));
    api_ok(acre_pool_free(pool, b, NULL));
    api_ok(acre_pool_get_stats(pool, &stats));
    assert_int_equal(stats.overruns + stats.late_writes, 0);
    api_ok(acre_pool_destroy(pool, NULL, NULL));
    expect_nothing_left(device);
}

/* ---- processes ---- */

API_TEST(suspended_device_in_a_forked_child_is_refused_and_the_parent_goes_on) {
    acre_vec *vec = vec_of(device, 3 * MIB, 1);
    acre_suspended *suspended = suspend_whole(device), *none = NULL;
    acre_suspend_info info = {.struct_size = sizeof info};
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        leave(acre_suspend(device, NULL, &none) != ACRE_E_FORKED ||
              acre_resume(suspended) != ACRE_E_FORKED ||
              acre_suspend_get_info(suspended, &info) != ACRE_E_FORKED ||
              acre_suspend_forget(device) != ACRE_E_FORKED);
    int code = -1;
    assert_int_equal(waitpid(pid, &code, 0), pid);
    assert_true(WIFEXITED(code));
    assert_int_equal(WEXITSTATUS(code), 0);
    api_ok(acre_resume(suspended));
    assert_true(has(device, acre_vec_data(vec), 3 * MIB, 1));
    api_ok(acre_vec_destroy(vec, NULL));
}

int main(void) {
    return tests_run("suspend_calls");
}
