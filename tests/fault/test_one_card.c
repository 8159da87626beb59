/* Before a call fails for lack of memory, it can use idle memory that pools of the same physical
 * memory hold, and of no other. No call waits for devices that do not use the memory. */
#include "fault_ladder.h"

enum { CARD = LADDER_BYTES, MOST = 48 << 20 };

struct card {
    acre_device *device, *other;
    acre_stream stream;
    acre_pool *pool, *pinned, *elsewhere;
};

static struct card card_begin(void) {
    const acre_open_options open = {
        .struct_size = sizeof open, .soft_bytes = CARD, .soft_devices = 2};
    const acre_pool_options pinned = {.struct_size = sizeof pinned, .kind = ACRE_KIND_PINNED};
    struct card c = {0};
    api_ok(acre_open("soft:0", &open, &c.device));
    api_ok(acre_open("soft:1", NULL, &c.other));
    api_ok(acre_stream_create(c.device, ACRE_STREAM_NON_BLOCKING, &c.stream));
    api_ok(acre_pool_create(c.device, NULL, &c.pool));
    api_ok(acre_pool_create(c.device, &pinned, &c.pinned));
    api_ok(acre_pool_create(c.other, NULL, &c.elsewhere));
    return c;
}

static void card_end(struct card *c) {
    api_ok(acre_pool_destroy(c->pool, NULL, NULL));
    api_ok(acre_pool_destroy(c->pinned, NULL, NULL));
    api_ok(acre_pool_destroy(c->elsewhere, NULL, NULL));
    api_ok(acre_stream_destroy(c->device, c->stream));
    api_ok(acre_close(c->other));
    api_ok(acre_close(c->device));
}

/* Leaves a pool with `bytes` of idle memory. */
static void make_idle(acre_pool *pool, size_t bytes, acre_stream stream) {
    api_ok(acre_pool_free(pool, small_alloc(pool, bytes, stream), stream));
    assert_true(small_stats(pool).held_bytes >= bytes);
}

TEST(idle_memory_is_for_vecs) {
    struct card c = card_begin();
    acre_vec *vec;
    make_idle(c.pool, MOST, c.stream);
    api_ok(acre_vec_create(c.device, 1, NULL, &vec));
    api_ok(acre_vec_grow(vec, MOST, c.stream));
    assert_in_range(small_stats(c.pool).held_bytes, 0, CARD - MOST);
    api_expect(acre_vec_grow(vec, CARD, c.stream), ACRE_E_DEVICE_MEMORY);
    assert_int_equal(acre_vec_size(vec), MOST);
    api_ok(acre_vec_destroy(vec, c.stream));
    card_end(&c);
}

TEST(idle_memory_is_for_appending) {
    struct card c = card_begin();
    acre_vec *vec;
    void *from = calloc(1, MOST);
    assert_non_null(from);
    make_idle(c.pool, MOST, c.stream);
    api_ok(acre_vec_create(c.device, 1, NULL, &vec));
    api_ok(acre_vec_append(vec, from, MOST, c.stream));
    assert_int_equal(acre_vec_size(vec), MOST);
    assert_in_range(small_stats(c.pool).held_bytes, 0, CARD - MOST);
    api_ok(acre_vec_destroy(vec, c.stream));
    free(from);
    card_end(&c);
}

TEST(idle_memory_is_for_blocks_that_grow) {
    struct card c = card_begin();
    void *p, *more;
    api_ok(acre_mem_alloc(c.device, ACRE_KIND_DEVICE, 4 << 20, 0, &p));
    make_idle(c.pool, MOST, c.stream);
    api_ok(acre_mem_realloc(c.device, p, MOST, c.stream, &more));
    assert_in_range(small_stats(c.pool).held_bytes, 0, CARD - MOST);
    api_expect(acre_mem_realloc(c.device, more, 2 * (size_t)CARD, c.stream, &p),
               ACRE_E_DEVICE_MEMORY);
    api_ok(acre_mem_free(c.device, more));
    card_end(&c);
}

TEST(idle_memory_is_for_blocks) {
    const acre_kind kinds[] = {ACRE_KIND_DEVICE, ACRE_KIND_MANAGED};
    for (int i = 0; i < 2; i++) {
        struct card c = card_begin();
        void *p = NULL;
        make_idle(c.pool, MOST, c.stream);
        api_ok(acre_mem_alloc(c.device, kinds[i], MOST, 0, &p));
        api_ok(acre_mem_free(c.device, p));
        api_expect(acre_mem_alloc(c.device, ACRE_KIND_DEVICE, 2 * (size_t)CARD, 0, &p),
                   ACRE_E_DEVICE_MEMORY);
        card_end(&c);
    }
}

TEST(idle_memory_is_for_reserving_and_other_pools) {
    struct card c = card_begin();
    const acre_pool_options ahead = {.struct_size = sizeof ahead, .initial_bytes = MOST};
    acre_pool *second, *third;
    make_idle(c.pool, MOST, c.stream);
    api_ok(acre_pool_create(c.device, NULL, &second));
    api_ok(acre_pool_reserve(second, MOST));
    assert_in_range(small_stats(c.pool).held_bytes, 0, CARD - MOST);
    api_ok(acre_pool_create(c.device, &ahead, &third));
    assert_in_range(small_stats(second).held_bytes, 0, CARD - MOST);
    api_ok(acre_pool_free(c.pool, small_alloc(c.pool, MOST, c.stream), c.stream));
    api_ok(acre_pool_destroy(second, NULL, NULL));
    api_ok(acre_pool_destroy(third, NULL, NULL));
    card_end(&c);
}

/* The call waits for memory that was freed behind work in flight. */
TEST(memory_in_flight_is_waited_for) {
    struct card c = card_begin();
    struct gate gate;
    pthread_t opener;
    void *block = small_alloc(c.pool, MOST, c.stream), *p = NULL;
    gate_put(c.stream, &gate);
    api_ok(acre_pool_free(c.pool, block, c.stream));
    assert_int_equal(pthread_create(&opener, NULL, gate_open_late, &gate), 0);
    api_ok(acre_mem_alloc(c.device, ACRE_KIND_DEVICE, MOST, 0, &p));
    assert_int_equal(atomic_load(&gate.is_passed), 1);
    pthread_join(opener, NULL);
    api_ok(acre_mem_free(c.device, p));
    card_end(&c);
}

TEST(other_memory_stays) {
    struct card c = card_begin();
    acre_stream elsewhere;
    void *p = NULL;
    api_ok(acre_stream_create(c.other, ACRE_STREAM_NON_BLOCKING, &elsewhere));
    make_idle(c.pinned, 8 * MIB, c.stream);
    make_idle(c.elsewhere, 8 * MIB, elsewhere);
    uint64_t pinned = small_stats(c.pinned).held_bytes, other = small_stats(c.elsewhere).held_bytes;
    void *live = small_alloc(c.pool, MOST, c.stream);
    api_expect(acre_pool_alloc(c.pool, MOST, 0, c.stream, &p), ACRE_E_DEVICE_MEMORY);
    api_expect(acre_mem_alloc(c.device, ACRE_KIND_DEVICE, MOST, 0, &p), ACRE_E_DEVICE_MEMORY);
    assert_int_equal(small_stats(c.pinned).held_bytes, pinned);
    assert_int_equal(small_stats(c.elsewhere).held_bytes, other);
    api_ok(acre_pool_free(c.pool, live, c.stream));
    api_ok(acre_stream_destroy(c.other, elsewhere));
    card_end(&c);
}

/* ---- unneeded waits ---- */

TEST(freeing_does_not_wait_for_other_devices) {
    struct card c = card_begin();
    struct gate gate;
    acre_stream busy;
    acre_pool *second;
    void *p = NULL;
    api_ok(acre_stream_create(c.other, ACRE_STREAM_NON_BLOCKING, &busy));
    gate_put(busy, &gate);
    api_ok(acre_mem_alloc(c.device, ACRE_KIND_DEVICE, 4 * MIB, 0, &p));
    api_ok(acre_mem_free(c.device, p));
    api_ok(acre_pool_create(c.device, NULL, &second));
    make_idle(second, 4 * MIB, c.stream);
    api_ok(acre_pool_destroy(second, NULL, NULL));
    assert_int_equal(atomic_load(&gate.is_passed), 0);
    atomic_store(&gate.is_open, 1);
    api_ok(acre_stream_sync(c.other, busy));
    api_ok(acre_stream_destroy(c.other, busy));
    card_end(&c);
}

/* acre_mem_free waits for a device that copies from the memory. */
TEST(freeing_waits_for_devices_that_use_the_memory) {
    struct card c = card_begin();
    struct gate gate;
    acre_stream busy;
    pthread_t opener;
    void *p = NULL, *to = NULL;
    api_ok(acre_stream_create(c.other, ACRE_STREAM_NON_BLOCKING, &busy));
    api_ok(acre_mem_alloc(c.device, ACRE_KIND_DEVICE, 4 * MIB, 0, &p));
    api_ok(acre_mem_alloc(c.other, ACRE_KIND_DEVICE, 4 * MIB, 0, &to));
    gate_put(busy, &gate);
    api_ok(acre_copy(c.other, to, p, 4 * MIB, busy));
    assert_int_equal(pthread_create(&opener, NULL, gate_open_late, &gate), 0);
    api_ok(acre_mem_free(c.device, p));
    assert_int_equal(atomic_load(&gate.is_passed), 1);
    pthread_join(opener, NULL);
    api_ok(acre_mem_free(c.other, to));
    api_ok(acre_stream_destroy(c.other, busy));
    card_end(&c);
}

int main(void) {
    return tests_run("one_card");
}
