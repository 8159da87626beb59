/* The counted loop over heaps: every driver call of every host function is refused in turn. After
 * each run: the expected status; all blocks are live with their contents, except after reset;
 * kernels can allocate every byte that is not in a block. The same call works once the driver does,
 * and nothing is left after trim. Further tests: replies to waiting kernels, growing ahead, a lost
 * device. */
#include "fault_counted.h"

#include "unit/heap_bring.h"
#include "unit/heap_fixture.h"

#define MIB ((uint64_t)1 << 20)
enum { BLOCKS = 6 };

struct things {
    const char *name;
    acre_device *device;
    acre_heap *heap;
    char *blocks[BLOCKS];
    int is_forgotten; /* a reset has begun */
};

/* ---- heaps in several states ---- */

static const size_t sizes[BLOCKS] = {16, 100, 5000, 32768, 70000, 3 << 20};

static void make_with(struct things *t, uint64_t ahead) {
    acre_heap_options options = {.struct_size = sizeof options,
                                 .initial_bytes = 8 * MIB,
                                 .limit_bytes = 64 * MIB,
                                 .step_bytes = 4 * MIB,
                                 .ahead_bytes = ahead,
                                 .flags = ACRE_HEAP_NO_SERVICE};
    api_ok(acre_heap_create(t->device, &options, &t->heap));
}

/* Allocates live blocks of every size among freed ones. The first byte of each holds its number. */
static void fill(struct things *t) {
    acre_heap_handle image = heap_bring(t->heap);
    for (int i = 0; i < BLOCKS; i++) {
        void *before = i < 5 ? acre_heap_malloc(image, sizes[i]) : NULL;
        t->blocks[i] = acre_heap_malloc(image, sizes[i]);
        assert_non_null(t->blocks[i]);
        acre_heap_free(image, before);
    }
    heap_put_back(t->heap, image);
    for (int i = 0; i < BLOCKS; i++) {
        unsigned char number = (unsigned char)(i + 1);
        api_ok(acre_copy_sync(t->device, t->blocks[i], &number, 1));
    }
}

static void make_some(struct things *t) {
    make_with(t, 0);
    fill(t);
}
static void make_grown(struct things *t) { /* with memory at the end that trim can release */
    make_some(t);
    for (uint64_t bytes = 12 * MIB; bytes <= 24 * MIB; bytes += 4 * MIB)
        api_ok(acre_heap_grow(t->heap, bytes));
}
static void make_ahead(struct things *t) {
    make_with(t, 16 * MIB);
    fill(t);
}

/* ---- the calls ---- */

static acre_status create(struct things *t) {
    acre_heap_options options = {.struct_size = sizeof options, .limit_bytes = 64 * MIB};
    t->heap = (acre_heap *)t;
    acre_status status = acre_heap_create(t->device, &options, &t->heap);
    if (status)
        assert_null(t->heap);
    return status;
}
static acre_status grow(struct things *t) {
    return acre_heap_grow(t->heap, 20 * MIB);
}
static acre_status limit(struct things *t) {
    return acre_heap_set_limit(t->heap, 30 * MIB);
}
static acre_status trim(struct things *t) {
    return acre_heap_trim(t->heap, 0);
}
static acre_status reset(struct things *t) {
    t->is_forgotten = 1;
    return acre_heap_reset(t->heap);
}
static acre_status stats(struct things *t) {
    acre_heap_stats now = {.struct_size = sizeof now};
    acre_status status = acre_heap_get_stats(t->heap, &now);
    assert_int_equal(now.live_blocks, status ? 0 : BLOCKS);
    return status;
}
static int count_block(void *user, void *block, uint64_t bytes) {
    (void)block, (void)bytes;
    ++*(int *)user;
    return 0;
}
static acre_status walk(struct things *t) {
    int count = 0;
    acre_status status = acre_heap_walk(t->heap, count_block, &count);
    assert_int_equal(count, status ? 0 : BLOCKS);
    return status;
}
static int count_inspected(void *user, const acre_heap_block *block) {
    assert_int_equal(block->flags, 0);
    ++*(int *)user;
    return 0;
}
static acre_status inspect(struct things *t) {
    int count = 0;
    acre_status status = acre_heap_inspect(t->heap, count_inspected, &count);
    assert_true(status ? count < BLOCKS : count == BLOCKS);
    return status;
}
/* A kernel waits for memory. acre__heap_serve must see its request whatever fails. */
static acre_status serve(struct things *t) {
    acre__heap_wish *wish = &t->heap->pinned->wish;
    wish->bytes = 100;
    wish->number = t->heap->answers + 1;
    assert_int_equal(acre__heap_serve(t->heap), 1);
    return ACRE_OK;
}
static acre_status handle(struct things *t) {
    acre_heap_handle h;
    return acre_heap_get_handle(t->heap, &h);
}
static acre_status destroy(struct things *t) {
    acre_status status = acre_heap_destroy(t->heap, NULL, NULL);
    if (status == ACRE_OK)
        t->heap = NULL;
    return status;
}

/* ---- checks ---- */

/* Frees all blocks in a copy of the records. Then the whole heap must be one free block. */
static void expect_all_there(struct things *t) {
    acre_heap_handle image = heap_bring(t->heap);
    uint64_t committed = image.control->committed;
    heap_expect_sound(image);
    for (int i = 0; i < BLOCKS; i++)
        acre_heap_free(image, t->blocks[i]);
    if (!t->is_forgotten)
        assert_int_equal(image.control->double_frees, 0);
    assert_true(committed <= t->heap->committed);
    acre__heap_flush(acre__heap_of(image), image.control->flushes);
    if (!t->is_forgotten && committed)
        assert_non_null(acre_heap_malloc(image, committed * ACRE__HEAP_SEGMENT_BYTES));
    heap_bring_end(image);
}

static void expect_contents(struct things *t) {
    for (int i = 0; i < BLOCKS && t->blocks[i]; i++) {
        unsigned char number = 0;
        api_ok(acre_copy_sync(t->device, &number, t->blocks[i], 1));
        assert_int_equal(number, i + 1);
    }
}

/* Once all updates are written, kernels see the same state as the host. */
static void expect_told(acre_heap *heap) {
    acre_heap_handle image = heap_bring(heap);
    assert_int_equal(image.control->committed, heap->committed);
    assert_int_equal(image.control->answers, acre__heap_answer(heap));
    heap_bring_end(image);
}

static void expect_nothing_left(struct things *t) {
    if (t->heap)
        api_ok(acre_heap_destroy(t->heap, NULL, NULL));
    t->heap = NULL;
    t->is_forgotten = 0;
    memset(t->blocks, 0, sizeof t->blocks);
    api_ok(acre_trim(t->device));
    acre_device_stats after = api_stats(t->device);
    assert_int_equal(after.chunks + after.chunk_bytes + after.limbo_count + after.mem_blocks, 0);
}

static const struct op {
    const char *name;
    acre_status (*call)(struct things *t);
    void (*before)(struct things *t); /* or NULL */
} ops[] = {
    {"create", create, NULL},
    {"grow", grow, make_some},
    {"limit", limit, make_grown},
    {"trim", trim, make_grown},
    {"reset", reset, make_grown},
    {"statistics", stats, make_some},
    {"walk", walk, make_some},
    {"inspect", inspect, make_some},
    {"answer a kernel", serve, make_some},
    {"grow ahead", handle, make_ahead},
    {"destroy", destroy, make_grown},
};
enum { OPS = sizeof ops / sizeof ops[0] };

/* These calls do not return refusals to the caller. A later call repeats the refused steps. */
static void expect_made_up(struct things *t, const struct counted *run, uint64_t committed) {
    acre_heap *heap = t->heap;
    assert_true(heap->committed >= committed);
    (void)acre__heap_serve(heap); /* the next pass of the service */
    assert_int_equal(heap->is_unsaid, 0);
    expect_told(heap);
    if (strcmp(run->op, "answer a kernel") == 0)
        assert_int_equal(heap->is_full,
                         heap->committed == committed && run->code == CUDA_ERROR_OUT_OF_MEMORY);
    api_ok(acre_heap_grow(heap, 40 * MIB));
    expect_told(heap);
    assert_int_equal(heap->is_full, 0);
}

static void run_one(struct things *t, const struct op *op, struct counted *run) {
    if (op->before)
        op->before(t);
    uint64_t committed = t->heap ? t->heap->committed : 0, most = t->heap ? t->heap->limit : 0;
    counted_call(run, op->call, t);
    if (run->mode == ACRE__FAULT_FROM) {
        fault_sync(t->name);
        api_ok(acre_trim(t->device)); /* retries what could not be unmapped */
    }
    counted_expect_status(run,
                          counted_is_right(run, COUNTED_DEVICE | COUNTED_HOST | COUNTED_ADDRESSES));
    if (run->status && t->heap) {
        assert_true(t->heap->committed == committed || op->call == grow || op->call == trim);
        assert_int_equal(t->heap->limit, most);
        expect_all_there(t);
        expect_contents(t);
    }
    if (run->status)
        api_ok(op->call(t));
    if (t->heap && (op->call == serve || op->call == handle))
        expect_made_up(t, run, committed);
    if (t->heap && op->before) {
        expect_all_there(t);
        if (!t->is_forgotten)
            expect_contents(t);
        if (op->call == grow)
            assert_int_equal(t->heap->committed, 10);
        if (op->call == trim)
            assert_true(t->heap->blocks.mapped < 24 * MIB);
        expect_told(t->heap);
    }
    expect_nothing_left(t);
}

TEST(heap_calls_bear_every_refusal_and_lose_nothing) {
    for (API_EACH(name)) {
        struct things t = {.name = name, .device = api_open(name)};
        for (size_t i = 0; i < OPS; i++) {
            const struct counted run = {.name = name, .device = t.device, .op = ops[i].name};
            counted_keeps_memory(run, run_one, &t, &ops[i]);
        }
        api_ok(acre_close(t.device));
    }
}

/* ---- a kernel that waits for the service of its heap ---- */

struct job {
    acre_heap_handle h;
    uint32_t want, got;
};

static void kernel_take(void *arg) {
    struct job *job = arg;
    while (job->got < job->want && acre_heap_malloc(job->h, MIB))
        job->got++;
}

static void job_run(struct things *t, struct job *job) {
    const uint32_t one[3] = {1, 1, 1};
    api_ok(acre_soft_launch(t->device, NULL, kernel_take, one, one, 0, job));
    api_ok(acre_stream_sync(t->device, NULL));
}

/* The kernel continues or gets NULL. The next kernel gets the memory that this one did not. */
TEST(heap_service_outlives_a_driver_that_refuses) {
    static const char *const entries[] = {"cuMemCreate", "cuMemMap", "cuMemSetAccess",
                                          "cuMemcpyHtoDAsync"};
    struct things t = {.name = "soft", .device = api_open("soft")};
    for (size_t i = 0; i < 4; i++)
        for (uint32_t nth = 1; nth <= 4; nth++) {
            acre_heap_options options = {.struct_size = sizeof options,
                                         .initial_bytes = 4 * MIB,
                                         .limit_bytes = 32 * MIB,
                                         .step_bytes = 4 * MIB};
            struct job job = {.want = 32};
            api_ok(acre_heap_create(t.device, &options, &t.heap));
            api_ok(acre_heap_get_handle(t.heap, &job.h));
            fault_on(entries[i], nth, ACRE__FAULT_ONCE, CUDA_ERROR_UNKNOWN);
            job_run(&t, &job);
            assert_true(job.got >= 4);
            assert_true(fault_off() == 1 || job.got == 32);
            job_run(&t, &job);
            assert_int_equal(job.got, 32);
            expect_nothing_left(&t);
        }
    api_ok(acre_close(t.device));
}

TEST(heap_of_a_lost_device_can_be_destroyed) {
    struct things t = {.name = "soft", .device = api_open("soft")};
    uint64_t blocks = 1, bytes = 1;
    acre_heap *left;
    make_some(&t);
    api_ok(acre_heap_create(t.device, NULL, &left)); /* left to acre_close, with its service */
    fault_on(NULL, 1, ACRE__FAULT_STICKY, CUDA_ERROR_ILLEGAL_ADDRESS);
    (void)acre_device_sync(t.device);
    api_expect(grow(&t), ACRE_E_DEVICE_LOST);
    api_expect(limit(&t), ACRE_E_DEVICE_LOST);
    api_expect(trim(&t), ACRE_E_DEVICE_LOST);
    api_expect(acre_heap_reset(t.heap), ACRE_E_DEVICE_LOST);
    api_expect(stats(&t), ACRE_E_DEVICE_LOST);
    api_expect(walk(&t), ACRE_E_DEVICE_LOST);
    api_expect(inspect(&t), ACRE_E_DEVICE_LOST);
    api_expect(handle(&t), ACRE_E_DEVICE_LOST);
    api_ok(acre_heap_destroy(t.heap, &blocks, &bytes));
    assert_int_equal(blocks + bytes, 0);
    api_ok(acre_close(t.device));
    (void)fault_off();
}

int main(void) {
    fault_begin();
    return tests_run("counted_heap");
}
