/* Suspend and resume on every device: contents and addresses of everything that acre maps, rules,
 * figures, parts, and copies that are retained. */
#include "acre_heap.h"
#include "api_range.h"
#include "api_suspend.h"

/* ---- everything at once ---- */

enum { SMALLS = 40, LARGES = 4, PLANNED = 3 };

struct everything {
    acre_device *device;
    acre_pool *pool, *other;
    char *small[SMALLS], *large[LARGES], *in_other;
    acre_vec *vec, *odd;
    char *mem, *little, *pinned;
    acre_plan *plan;
    void *planned[PLANNED];
    acre_heap *heap;
    acre_range *range;
};

static size_t small_bytes(int i) {
    return 256 + (size_t)i * 3000;
}

static size_t large_bytes(int i) {
    return (size_t)(i + 1) * MIB + (size_t)i * 4096;
}

static void plan_make(struct everything *e) {
    acre_plan_options options = {.struct_size = sizeof options, .device_bytes = 6 * MIB};
    api_ok(acre_plan_create(e->device, &options, &e->plan));
    for (size_t i = 0; i < PLANNED; i++) {
        api_ok(acre_plan_want(e->plan, ACRE_PLACE_DEVICE, MIB + i, 0, &e->planned[i]));
        put(e->device, e->planned[i], MIB + i, 50 + i);
    }
    api_ok(acre_plan_commit(e->plan));
}

static struct everything everything_make(acre_device *device) {
    struct everything e = {.device = device};
    acre_heap_options heap = {.struct_size = sizeof heap, .limit_bytes = 16 * MIB};
    void *p;
    e.pool = pool_make(device, 0);
    e.other = pool_make(device, 0);
    for (int i = 0; i < SMALLS; i++)
        e.small[i] = block_make(device, e.pool, small_bytes(i), 1);
    for (int i = 0; i < LARGES; i++)
        e.large[i] = block_make(device, e.pool, large_bytes(i), 2);
    e.in_other = block_make(device, e.other, 5 * MIB, 3);
    e.vec = vec_of(device, 7 * MIB + 123, 4);
    e.odd = vec_of(device, 1, 5);
    e.mem = mem_of(device, 3 * MIB + 17, 6);
    e.little = mem_of(device, 4096, 7);
    api_ok(acre_mem_alloc(device, ACRE_KIND_PINNED, 4 * MIB, 0, &p));
    e.pinned = memset(p, 8, 4 * MIB);
    plan_make(&e);
    api_ok(acre_heap_create(device, &heap, &e.heap));
    e.range = range_in(device, NULL, 8);
    api_ok(piece_commit(e.range, 1, 3, NULL));
    api_ok(piece_commit(e.range, 6, 1, NULL));
    put(device, piece_at(e.range, 1), 3 * piece, 9);
    put(device, piece_at(e.range, 6), piece, 10);
    return e;
}

static void everything_check(const struct everything *e) {
    for (int i = 0; i < SMALLS; i++)
        assert_true(has(e->device, e->small[i], small_bytes(i), 1));
    for (int i = 0; i < LARGES; i++)
        assert_true(has(e->device, e->large[i], large_bytes(i), 2));
    assert_true(has(e->device, e->in_other, 5 * MIB, 3));
    assert_true(has(e->device, acre_vec_data(e->vec), 7 * MIB + 123, 4));
    assert_true(has(e->device, acre_vec_data(e->odd), 1, 5));
    assert_true(has(e->device, e->mem, 3 * MIB + 17, 6));
    assert_true(has(e->device, e->little, 4096, 7));
    for (size_t i = 0; i < PLANNED; i++)
        assert_true(has(e->device, e->planned[i], MIB + i, 50 + i));
    assert_true(has(e->device, piece_at(e->range, 1), 3 * piece, 9));
    assert_true(has(e->device, piece_at(e->range, 6), piece, 10));
    for (size_t i = 0; i < 4 * MIB; i += 4096)
        assert_int_equal(e->pinned[i], 8);
}

static void everything_end(struct everything *e) {
    for (int i = 0; i < SMALLS; i++)
        api_ok(acre_pool_free(e->pool, e->small[i], NULL));
    for (int i = 0; i < LARGES; i++)
        api_ok(acre_pool_free(e->pool, e->large[i], NULL));
    api_ok(acre_pool_free(e->other, e->in_other, NULL));
    api_ok(acre_pool_destroy(e->pool, NULL, NULL));
    api_ok(acre_pool_destroy(e->other, NULL, NULL));
    api_ok(acre_vec_destroy(e->vec, NULL));
    api_ok(acre_vec_destroy(e->odd, NULL));
    api_ok(acre_mem_free(e->device, e->mem));
    api_ok(acre_mem_free(e->device, e->little));
    api_ok(acre_mem_free(e->device, e->pinned));
    api_ok(acre_plan_destroy(e->plan));
    api_ok(acre_heap_destroy(e->heap, NULL, NULL));
    api_ok(acre_range_destroy(e->range, NULL));
    expect_nothing_left(e->device);
}

API_TEST(suspend_of_everything_releases_it_and_resume_brings_contents_to_the_same_addresses) {
    struct everything e = everything_make(device);
    const void *vec_at = acre_vec_data(e.vec), *range_at = acre_range_data(e.range);
    for (int round = 0; round < 3; round++) {
        acre_device_stats before = api_stats(device);
        uint64_t free_before = api_free_bytes(device);
        acre_suspended *suspended = suspend_whole(device);
        acre_suspend_info info = suspend_info(suspended);
        acre_device_stats away = api_stats(device);
        assert_int_equal(info.stayed_bytes, 0);
        assert_int_equal(info.dropped_bytes, 0);
        assert_int_equal(info.file_bytes, 0);
        assert_true(info.kept_bytes > 0 && info.copied_bytes == info.kept_bytes);
        assert_true(info.host_bytes >= info.kept_bytes);
        assert_int_equal(away.suspended_bytes, info.released_bytes);
        assert_int_equal(away.chunk_bytes, 0); /* unused chunks are released, too */
        assert_int_equal(away.mem_blocks, before.mem_blocks);
        assert_true(info.released_bytes <= before.chunk_bytes);
        api_expect_free(device, free_before + before.chunk_bytes);
        api_ok(acre_resume(suspended));
        assert_int_equal(api_stats(device).suspended_bytes, 0);
        assert_int_equal(api_stats(device).chunk_bytes, info.released_bytes);
        assert_ptr_equal(acre_vec_data(e.vec), vec_at);
        assert_ptr_equal(acre_range_data(e.range), range_at);
        everything_check(&e);
    }
    everything_end(&e);
}

/* 1 if reading the contents that are away gives what `put` wrote. */
static int reads(acre_suspended *suspended, const char *p, size_t bytes, uint64_t salt,
                 size_t offset, size_t count) {
    unsigned char *words = words_make(p, bytes, salt), *found = calloc(count, 1);
    assert_non_null(found);
    api_ok(acre_suspend_read(suspended, p + offset, count, found));
    int is_same = memcmp(found, words + offset, count) == 0;
    free(words);
    free(found);
    return is_same;
}

API_TEST(suspend_read_gets_contents_that_are_away) {
    enum { ODD = 5 * MIB + 1234 };
    acre_pool *pool = pool_make(device, 0), *dropped = pool_make(device, 0);
    acre_suspend_rule rules[] = {RULE(.pool = dropped, .how = ACRE_SUSPEND_DROP)};
    acre_suspend_options options = suspend_options(ACRE_SUSPEND_KEEP, 0);
    char *block = block_make(device, pool, ODD, 3), *small = block_make(device, pool, 100, 4);
    char *lost = block_make(device, dropped, 4 * MIB, 5), byte = 7;
    acre_vec *vec = vec_of(device, 12 * MIB, 6);
    const char *in_vec = acre_vec_data(vec);
    options.rules = rules;
    options.rule_count = 1;
    for (int in_file = 0; in_file < 2; in_file++) {
        options.how = in_file ? ACRE_SUSPEND_FILE : ACRE_SUSPEND_KEEP;
        options.folder = in_file ? "." : NULL;
        acre_suspended *suspended = suspend_with(device, &options);
        assert_true(reads(suspended, block, ODD, 3, 0, ODD));
        assert_true(reads(suspended, block, ODD, 3, 2 * MIB - 5, 10));
        assert_true(reads(suspended, block, ODD, 3, ODD - 1, 1));
        assert_true(reads(suspended, small, 100, 4, 0, 100));
        assert_true(reads(suspended, in_vec, 12 * MIB, 6, 1, 12 * MIB - 1));
        api_ok(acre_suspend_read(suspended, block, 0, NULL));
        api_expect(acre_suspend_read(suspended, lost, 1, &byte), ACRE_E_POINTER);
        api_expect(acre_suspend_read(suspended, in_vec + 12 * MIB - 1, 64 * MIB, &byte),
                   ACRE_E_POINTER);
        api_expect(acre_suspend_read(suspended, &byte, 1, &byte), ACRE_E_POINTER);
        assert_int_equal(byte, 7);
        api_ok(acre_resume(suspended));
        assert_true(has(device, block, ODD, 3));
    }
    api_ok(acre_pool_free(pool, block, NULL));
    api_ok(acre_pool_free(pool, small, NULL));
    api_ok(acre_pool_free(dropped, lost, NULL));
    api_ok(acre_vec_destroy(vec, NULL));
    api_ok(acre_pool_destroy(pool, NULL, NULL));
    api_ok(acre_pool_destroy(dropped, NULL, NULL));
}

/* After a resume every object works as before: blocks are allocated and freed, vecs and ranges
 * grow. */
API_TEST(suspend_and_resume_leave_objects_that_work) {
    struct everything e = everything_make(device);
    api_ok(acre_resume(suspend_whole(device)));
    char *more = block_make(device, e.pool, 9 * MIB, 20);
    char *small = block_make(device, e.pool, 300, 21);
    api_ok(acre_vec_grow(e.vec, 8 * MIB, NULL));
    put(device, (char *)acre_vec_data(e.vec) + 7 * MIB + 123, 8 * MIB, 22);
    api_ok(piece_commit(e.range, 0, 8, NULL));
    put(device, piece_at(e.range, 0), piece, 23);
    void *grown;
    api_ok(acre_mem_realloc(device, e.mem, 9 * MIB, NULL, &grown));
    put(device, (char *)grown + 4 * MIB, 5 * MIB, 24);
    api_ok(acre_heap_grow(e.heap, 12 * MIB));
    api_ok(acre_resume(suspend_whole(device)));
    assert_true(has(device, more, 9 * MIB, 20) && has(device, small, 300, 21));
    assert_true(has(device, (char *)acre_vec_data(e.vec) + 7 * MIB + 123, 8 * MIB, 22));
    assert_true(has(device, piece_at(e.range, 0), piece, 23));
    assert_true(has(device, (char *)grown + 4 * MIB, 5 * MIB, 24));
    api_ok(acre_pool_free(e.pool, more, NULL));
    api_ok(acre_pool_free(e.pool, small, NULL));
    api_ok(acre_mem_realloc(device, grown, 3 * MIB + 17, NULL, &grown));
    assert_ptr_equal(grown, e.mem);
    everything_check(&e);
    everything_end(&e);
}

/* ---- figures ---- */

API_TEST(suspend_info_has_exact_bytes_of_a_vec_and_of_a_range) {
    acre_vec *vec = vec_of(device, 5 * MIB, 1);
    acre_range *range = range_in(device, NULL, 4);
    api_ok(piece_commit(range, 0, 3, NULL));
    put(device, piece_at(range, 0), 3 * piece, 2);
    api_ok(piece_decommit(range, 1, 1, NULL)); /* idle: it leaves, without contents */
    uint64_t mapped = acre_vec_mapped_bytes(vec);
    acre_suspended *suspended = suspend_whole(device);
    acre_suspend_info info = suspend_info(suspended);
    assert_int_equal(info.released_bytes, mapped + 3 * piece);
    assert_true(info.kept_bytes >= 5 * MIB + 2 * piece && info.kept_bytes <= mapped + 2 * piece);
    assert_int_equal(info.copied_bytes, info.kept_bytes);
    assert_true(info.host_bytes >= info.kept_bytes && info.host_bytes < info.kept_bytes + 2 * MIB);
    assert_int_equal(info.stayed_bytes + info.dropped_bytes + info.file_bytes, 0);
    api_ok(acre_resume(suspended));
    assert_true(has(device, acre_vec_data(vec), 5 * MIB, 1));
    assert_true(has(device, piece_at(range, 0), piece, 2));
    assert_int_equal(range_stats(range).committed_bytes, 2 * piece);
    assert_int_equal(range_stats(range).idle_bytes, piece);
    api_ok(piece_commit(range, 1, 1, NULL)); /* the idle piece has memory again */
    put(device, piece_at(range, 1), piece, 3);
    assert_true(has(device, piece_at(range, 1), piece, 3));
    api_ok(acre_vec_destroy(vec, NULL));
    api_ok(acre_range_destroy(range, NULL));
    expect_nothing_left(device);
}

/* Only live blocks are kept: a pool with one live block of many keeps that one. */
API_TEST(suspend_keeps_live_blocks_only) {
    acre_pool *pool = pool_make(device, 0);
    char *blocks[6];
    for (int i = 0; i < 6; i++)
        blocks[i] = block_make(device, pool, 4 * MIB, 1);
    for (int i = 0; i < 6; i++)
        if (i != 3)
            api_ok(acre_pool_free(pool, blocks[i], NULL));
    uint64_t held = api_stats(device).chunk_bytes;
    acre_suspended *suspended = suspend_whole(device);
    acre_suspend_info info = suspend_info(suspended);
    assert_int_equal(info.kept_bytes, 4 * MIB);
    assert_int_equal(info.copied_bytes, 4 * MIB);
    assert_int_equal(info.released_bytes, held);
    api_ok(acre_resume(suspended));
    assert_true(has(device, blocks[3], 4 * MIB, 1));
    api_ok(acre_pool_free(pool, blocks[3], NULL));
    api_ok(acre_pool_destroy(pool, NULL, NULL));
    expect_nothing_left(device);
}

/* Small blocks with small gaps between them are copied together. The gaps are not contents. */
API_TEST(suspend_copies_no_more_than_it_keeps) {
    acre_pool *pool = pool_make(device, 0);
    char *blocks[64];
    for (int i = 0; i < 64; i++)
        blocks[i] = block_make(device, pool, 1024, 1);
    for (int i = 0; i < 64; i += 2)
        api_ok(acre_pool_free(pool, blocks[i], NULL));
    acre_suspended *suspended = suspend_whole(device);
    acre_suspend_info info = suspend_info(suspended);
    assert_true(info.kept_bytes >= 32 * KIB);
    assert_true(info.copied_bytes <= info.kept_bytes);
    assert_true(info.host_bytes >= info.kept_bytes);
    api_ok(acre_resume(suspended));
    for (int i = 1; i < 64; i += 2) {
        assert_true(has(device, blocks[i], 1024, 1));
        api_ok(acre_pool_free(pool, blocks[i], NULL));
    }
    api_ok(acre_pool_destroy(pool, NULL, NULL));
}

TEST(suspend_of_an_empty_device_does_nothing) {
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        acre_suspended *suspended = suspend_whole(device);
        acre_suspend_info info = suspend_info(suspended);
        assert_int_equal(info.released_bytes + info.kept_bytes + info.host_bytes, 0);
        api_ok(acre_resume(suspended));
        api_ok(acre_close(device));
    }
}

/* ---- rules ---- */

struct tagged {
    acre_pool *pool;
    char *weights, *layer, *weightsy, *cache, *plain;
};

static struct tagged tagged_make(acre_device *device) {
    struct tagged t = {.pool = pool_make(device, 0)};
    t.weights = block_tagged(device, t.pool, "weights", 4 * MIB, 1);
    api_ok(acre_tag_push("weights"));
    t.layer = block_tagged(device, t.pool, "layer", 4 * MIB, 2);
    api_ok(acre_tag_pop());
    t.weightsy = block_tagged(device, t.pool, "weightsy", 4 * MIB, 3);
    t.cache = block_tagged(device, t.pool, "cache", 4 * MIB, 4);
    t.plain = block_make(device, t.pool, 4 * MIB, 5);
    return t;
}

static void tagged_end(acre_device *device, struct tagged *t) {
    char *blocks[] = {t->weights, t->layer, t->weightsy, t->cache, t->plain};
    for (int i = 0; i < 5; i++)
        api_ok(acre_pool_free(t->pool, blocks[i], NULL));
    api_ok(acre_pool_destroy(t->pool, NULL, NULL));
    expect_nothing_left(device);
}

API_TEST(suspend_rule_by_tag_has_tags_below_it_and_no_others) {
    struct tagged t = tagged_make(device);
    acre_suspend_rule rules[] = {RULE(.tag = "weights/layer", .how = ACRE_SUSPEND_KEEP),
                                 RULE(.tag = "weights", .how = ACRE_SUSPEND_DROP)};
    acre_suspend_options options = suspend_options(ACRE_SUSPEND_KEEP, 0);
    options.rules = rules;
    options.rule_count = 2;
    acre_suspended *suspended = suspend_with(device, &options);
    acre_suspend_info info = suspend_info(suspended);
    assert_int_equal(info.dropped_bytes, 4 * MIB);
    assert_int_equal(info.kept_bytes, 16 * MIB);
    api_ok(acre_resume(suspended));
    assert_true(has(device, t.layer, 4 * MIB, 2) && has(device, t.weightsy, 4 * MIB, 3));
    assert_true(has(device, t.cache, 4 * MIB, 4) && has(device, t.plain, 4 * MIB, 5));
    put(device, t.weights, 4 * MIB, 6); /* it has memory, whatever that holds */
    assert_true(has(device, t.weights, 4 * MIB, 6));
    tagged_end(device, &t);
}

API_TEST(suspend_rule_matches_all_of_its_fields) {
    struct tagged t = tagged_make(device);
    acre_pool *other = pool_make(device, 0);
    char *there = block_tagged(device, other, "weights", 4 * MIB, 7);
    acre_suspended *suspended =
        suspend_part(device, RULE(.tag = "weights", .pool = other, .how = ACRE_SUSPEND_KEEP), 0);
    acre_suspend_info info = suspend_info(suspended);
    assert_int_equal(info.kept_bytes, 4 * MIB);
    assert_true(has(device, t.weights, 4 * MIB, 1)); /* stays, and works */
    api_expect(acre_fill(device, there, 1, 1, NULL), ACRE_E_SUSPENDED);
    api_ok(acre_resume(suspended));
    suspended =
        suspend_part(device, RULE(.tag = "cache", .object = t.plain, .how = ACRE_SUSPEND_KEEP), 0);
    assert_int_equal(suspend_info(suspended).released_bytes, 0); /* nothing has both */
    api_ok(acre_resume(suspended));
    assert_true(has(device, there, 4 * MIB, 7));
    api_ok(acre_pool_free(other, there, NULL));
    api_ok(acre_pool_destroy(other, NULL, NULL));
    tagged_end(device, &t);
}

API_TEST(suspend_of_a_pool_leaves_the_rest) {
    struct everything e = everything_make(device);
    uint64_t held = api_stats(device).chunk_bytes;
    acre_suspended *suspended =
        suspend_part(device, RULE(.pool = e.pool, .how = ACRE_SUSPEND_KEEP), 0);
    acre_suspend_info info = suspend_info(suspended);
    uint64_t live = 0;
    for (int i = 0; i < LARGES; i++)
        live += large_bytes(i);
    assert_true(info.kept_bytes > live && info.kept_bytes < live + 6 * MIB);
    assert_true(info.stayed_bytes > 0 && info.released_bytes + info.stayed_bytes <= held);
    assert_true(has(device, e.in_other, 5 * MIB, 3));
    assert_true(has(device, e.mem, 3 * MIB + 17, 6));
    assert_true(has(device, acre_vec_data(e.vec), 7 * MIB + 123, 4));
    char *more = block_make(device, e.other, 300, 30); /* other pools allocate */
    acre_vec *vec = vec_of(device, 3 * MIB, 31);
    api_ok(acre_resume(suspended));
    assert_true(has(device, more, 300, 30));
    assert_true(has(device, acre_vec_data(vec), 3 * MIB, 31));
    api_ok(acre_pool_free(e.other, more, NULL));
    api_ok(acre_vec_destroy(vec, NULL));
    everything_check(&e);
    everything_end(&e);
}

API_TEST(suspend_of_single_objects_by_any_of_their_addresses) {
    struct everything e = everything_make(device);
    const struct {
        const void *object;
        uint64_t kept;
    } parts[] = {{(char *)acre_vec_data(e.vec) + 6 * MIB, 7 * MIB},
                 {e.mem + 5, 3 * MIB},
                 {e.planned[1], 3 * MIB},
                 {piece_at(e.range, 2), 4 * piece},
                 {piece_at(e.range, 5), 4 * piece}, /* an address of the range without memory */
                 {e.in_other + 4 * MIB, 5 * MIB}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        acre_suspended *suspended =
            suspend_part(device, RULE(.object = parts[i].object, .how = ACRE_SUSPEND_KEEP), 0);
        acre_suspend_info info = suspend_info(suspended);
        assert_true(info.kept_bytes >= parts[i].kept && info.kept_bytes <= parts[i].kept + 4 * MIB);
        assert_int_equal(api_stats(device).suspended_bytes, info.released_bytes);
        api_ok(acre_resume(suspended));
        everything_check(&e);
    }
    everything_end(&e);
}

/* A block that stays keeps its neighbours in the same physical memory on the device. */
API_TEST(suspend_of_a_block_beside_one_that_stays_leaves_both) {
    acre_pool *pool = pool_make(device, 0);
    char *a = block_tagged(device, pool, "go", 64 * KIB, 1);
    char *b = block_tagged(device, pool, "stay", 64 * KIB, 2);
    acre_suspended *suspended =
        suspend_part(device, RULE(.tag = "go", .how = ACRE_SUSPEND_KEEP), 0);
    acre_suspend_info info = suspend_info(suspended);
    assert_int_equal(info.released_bytes + info.kept_bytes, 0);
    assert_true(info.stayed_bytes >= 2 * MIB);
    assert_true(has(device, a, 64 * KIB, 1) && has(device, b, 64 * KIB, 2));
    char *c = block_make(device, pool, 64 * KIB, 3); /* the pool works */
    api_ok(acre_resume(suspended));
    api_ok(acre_pool_free(pool, a, NULL));
    api_ok(acre_pool_free(pool, b, NULL));
    api_ok(acre_pool_free(pool, c, NULL));
    api_ok(acre_pool_destroy(pool, NULL, NULL));
    expect_nothing_left(device);
}

API_TEST(suspend_drops_everything_but_heaps) {
    struct everything e = everything_make(device);
    acre_suspend_options options = suspend_options(ACRE_SUSPEND_DROP, 0);
    acre_heap_stats stats = {.struct_size = sizeof stats};
    acre_suspended *suspended = suspend_with(device, &options);
    acre_suspend_info info = suspend_info(suspended);
    assert_true(info.kept_bytes >= 8 * MIB && info.kept_bytes < 12 * MIB); /* the heap */
    assert_true(info.dropped_bytes > 30 * MIB);
    assert_int_equal(info.stayed_bytes, 0);
    api_ok(acre_resume(suspended));
    api_ok(acre_heap_get_stats(e.heap, &stats));
    assert_int_equal(stats.live_blocks, 0);
    assert_true(has(device, e.little, 4096, 7)); /* never left */
    put(device, e.mem, 3 * MIB + 17, 60);
    put(device, e.large[2], large_bytes(2), 61);
    assert_true(has(device, e.mem, 3 * MIB + 17, 60));
    assert_true(has(device, e.large[2], large_bytes(2), 61));
    everything_end(&e);
}

/* ---- parts ---- */

static void parts_in_order(acre_device *device, const int *order) {
    struct everything e = everything_make(device);
    acre_suspend_rule rules[] = {
        RULE(.pool = e.pool, .how = ACRE_SUSPEND_KEEP),
        RULE(.object = acre_vec_data(e.vec), .how = ACRE_SUSPEND_KEEP),
        RULE(.object = acre_range_data(e.range), .how = ACRE_SUSPEND_KEEP)};
    acre_suspended *parts[4];
    uint64_t away = 0;
    for (int i = 0; i < 3; i++) {
        parts[i] = suspend_part(device, rules[i], i == 1 ? ACRE_SUSPEND_RETAIN : 0);
        away += suspend_info(parts[i]).released_bytes;
        assert_int_equal(api_stats(device).suspended_bytes, away);
    }
    parts[3] = suspend_whole(device); /* the rest */
    assert_int_equal(suspend_info(parts[3]).stayed_bytes, 0);
    assert_int_equal(api_stats(device).chunk_bytes, 0);
    for (int i = 0; i < 4; i++) {
        api_ok(acre_resume(parts[order[i]]));
        if (order[i] == 1)
            assert_true(has(device, acre_vec_data(e.vec), 7 * MIB + 123, 4));
    }
    everything_check(&e);
    everything_end(&e);
}

API_TEST(suspend_in_parts_is_resumed_in_any_order) {
    static const int orders[][4] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 3, 0, 2}, {2, 0, 3, 1}};
    for (int i = 0; i < 4; i++)
        parts_in_order(device, orders[i]);
}

/* ---- retained copies ---- */

struct retained {
    struct tagged t;
    acre_suspend_rule rules[2];
    acre_suspend_options options;
};

static void retained_begin(struct retained *r, acre_device *device) {
    r->t = tagged_make(device);
    r->rules[0] = RULE(.tag = "weights", .how = ACRE_SUSPEND_KEEP);
    r->rules[1] = RULE(.tag = "cache", .how = ACRE_SUSPEND_DROP);
    r->options = suspend_options(ACRE_SUSPEND_KEEP, ACRE_SUSPEND_RETAIN);
    r->options.rules = r->rules;
    r->options.rule_count = 2;
}

static uint64_t retained_cycle(acre_device *device, const struct retained *r) {
    acre_suspended *suspended = suspend_with(device, &r->options);
    acre_suspend_info info = suspend_info(suspended);
    assert_int_equal(info.kept_bytes, 16 * MIB);
    assert_true(info.host_bytes >= 16 * MIB && info.host_bytes < 18 * MIB);
    api_ok(acre_resume(suspended));
    return info.copied_bytes;
}

API_TEST(suspend_retained_copies_save_what_is_unchanged_and_nothing_else) {
    struct retained r;
    retained_begin(&r, device);
    r.rules[0].is_unchanged = 1; /* untrue the first time: there is no copy yet, so it is made */
    assert_int_equal(retained_cycle(device, &r), 16 * MIB);
    assert_int_equal(retained_cycle(device, &r), 8 * MIB);
    assert_true(has(device, r.t.weights, 4 * MIB, 1) && has(device, r.t.layer, 4 * MIB, 2));
    /* Without the mark all is copied: contents may have changed. */
    put(device, r.t.weights, 4 * MIB, 11);
    put(device, r.t.plain, 4 * MIB, 15);
    r.rules[0].is_unchanged = 0;
    assert_int_equal(retained_cycle(device, &r), 16 * MIB);
    assert_true(has(device, r.t.weights, 4 * MIB, 11) && has(device, r.t.plain, 4 * MIB, 15));
    r.rules[0].is_unchanged = 1;
    assert_int_equal(retained_cycle(device, &r), 8 * MIB);
    assert_true(has(device, r.t.weights, 4 * MIB, 11) && has(device, r.t.plain, 4 * MIB, 15));
    assert_true(has(device, r.t.weightsy, 4 * MIB, 3));
    tagged_end(device, &r.t);
}

API_TEST(suspend_forget_and_trim_free_retained_copies) {
    struct retained r;
    retained_begin(&r, device);
    r.rules[0].is_unchanged = 1;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(retained_cycle(device, &r), 16 * MIB);
        assert_int_equal(retained_cycle(device, &r), 8 * MIB);
        api_ok(i ? acre_trim(device) : acre_suspend_forget(device));
    }
    /* A suspend that does not retain ends what it brings back. */
    assert_int_equal(retained_cycle(device, &r), 16 * MIB);
    r.options.flags = 0;
    assert_int_equal(retained_cycle(device, &r), 8 * MIB);
    assert_int_equal(retained_cycle(device, &r), 16 * MIB);
    tagged_end(device, &r.t);
}

/* Forgetting leaves the copies of memory that is away. */
API_TEST(suspend_forget_and_trim_keep_what_is_away) {
    struct retained r;
    retained_begin(&r, device);
    (void)retained_cycle(device, &r);
    r.rules[0].is_unchanged = 1;
    acre_suspended *suspended = suspend_with(device, &r.options);
    assert_int_equal(suspend_info(suspended).copied_bytes, 8 * MIB);
    api_ok(acre_suspend_forget(device));
    api_ok(acre_trim(device));
    api_ok(acre_resume(suspended));
    assert_true(has(device, r.t.weights, 4 * MIB, 1) && has(device, r.t.layer, 4 * MIB, 2));
    assert_true(has(device, r.t.plain, 4 * MIB, 5));
    tagged_end(device, &r.t);
}

/* A suspend that drops memory ends its copy, even if a later one claims that nothing changed. */
API_TEST(suspend_that_drops_ends_a_retained_copy) {
    struct retained r;
    retained_begin(&r, device);
    assert_int_equal(retained_cycle(device, &r), 16 * MIB);
    r.rules[0].how = ACRE_SUSPEND_DROP;
    acre_suspended *suspended = suspend_with(device, &r.options);
    assert_int_equal(suspend_info(suspended).dropped_bytes, 12 * MIB);
    api_ok(acre_resume(suspended));
    put(device, r.t.weights, 4 * MIB, 21);
    put(device, r.t.layer, 4 * MIB, 22);
    r.rules[0].how = ACRE_SUSPEND_KEEP;
    r.rules[0].is_unchanged = 1;
    assert_int_equal(retained_cycle(device, &r), 16 * MIB);
    assert_true(has(device, r.t.weights, 4 * MIB, 21) && has(device, r.t.layer, 4 * MIB, 22));
    tagged_end(device, &r.t);
}

/* Parts have copies of their own: suspending one part leaves the copies of the other. */
API_TEST(suspend_of_a_part_leaves_retained_copies_of_others) {
    struct tagged t = tagged_make(device);
    acre_suspend_rule weights = RULE(.tag = "weights", .how = ACRE_SUSPEND_KEEP);
    acre_suspend_rule cache = RULE(.tag = "cache", .how = ACRE_SUSPEND_KEEP);
    api_ok(acre_resume(suspend_part(device, weights, ACRE_SUSPEND_RETAIN)));
    api_ok(acre_resume(suspend_part(device, cache, ACRE_SUSPEND_RETAIN)));
    put(device, t.plain, 4 * MIB, 25);
    weights.is_unchanged = cache.is_unchanged = 1;
    acre_suspended *first = suspend_part(device, weights, ACRE_SUSPEND_RETAIN);
    assert_int_equal(suspend_info(first).copied_bytes, 0);
    assert_int_equal(suspend_info(first).kept_bytes, 8 * MIB);
    acre_suspended *second = suspend_part(device, cache, ACRE_SUSPEND_RETAIN);
    assert_int_equal(suspend_info(second).copied_bytes, 0);
    assert_int_equal(suspend_info(second).kept_bytes, 4 * MIB);
    api_ok(acre_resume(first));
    api_ok(acre_resume(second));
    assert_true(has(device, t.weights, 4 * MIB, 1) && has(device, t.layer, 4 * MIB, 2));
    assert_true(has(device, t.cache, 4 * MIB, 4) && has(device, t.plain, 4 * MIB, 25));
    tagged_end(device, &t);
}

int main(void) {
    return tests_run("suspend");
}
