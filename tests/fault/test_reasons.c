/* Statuses and details of the calls that allocate, resize and free, in one table: both families of
 * calls (pools and acre_mem_alloc), vecs and plans. Every detail begins with the name of the call
 * that the program made. '*' in a text stands for anything. The last tests are about the reason for
 * which a soft device was lost. */
#include <fnmatch.h>

#include "api/api_pool.h"
#include "fault_device.h"

#define MOST SIZE_MAX

struct world {
    struct things t;
    acre_stream dead, captured;
    acre_vec *vec;
    acre_plan *plan;
    char *block, *gone, *mem, *pinned, *in_vec, *in_plan; /* memory of each owner */
    char *p;                                              /* the result of a call */
};

struct row {
    const char *call;
    acre_status (*make)(struct world *w);
    acre_status wanted;
    const char *text; /* behind "call: " */
};

#define OUT(w) ((void **)(void *)&(w)->p)

/* ROW(number, status, text, call): one line of the table, with the call's name from its text. */
#define ROW(number, result, text, ...)                                                             \
    static acre_status row_##number(struct world *w) {                                             \
        return __VA_ARGS__;                                                                        \
    }                                                                                              \
    static const struct row at_##number = {#__VA_ARGS__, row_##number, result, text};

#define DEV w->t.device
#define STREAM w->t.stream

#define ROWS(X)                                                                                    \
    /* 0 bytes: ACRE_OK and NULL, as with cudaMalloc */                                            \
    X(00, ACRE_OK, NULL, acre_alloc(DEV, 0, STREAM, OUT(w)))                                       \
    X(01, ACRE_OK, NULL, acre_pool_alloc(w->t.pool, 0, 0, STREAM, OUT(w)))                         \
    X(02, ACRE_OK, NULL, acre_pool_alloc_zeroed(w->t.pool, 0, 0, STREAM, OUT(w)))                  \
    X(03, ACRE_OK, NULL, acre_pool_alloc_many(w->t.pool, 0, 1, STREAM, OUT(w)))                    \
    X(04, ACRE_OK, NULL, acre_pool_realloc(w->t.pool, NULL, 0, STREAM, OUT(w)))                    \
    X(05, ACRE_OK, NULL, acre_mem_alloc(DEV, ACRE_KIND_DEVICE, 0, 0, OUT(w)))                      \
    X(06, ACRE_OK, NULL, acre_mem_alloc(DEV, ACRE_KIND_PINNED, 0, 0, OUT(w)))                      \
    X(07, ACRE_OK, NULL, acre_mem_alloc(DEV, ACRE_KIND_MAPPED, 0, 0, OUT(w)))                      \
    X(08, ACRE_OK, NULL, acre_mem_alloc(DEV, ACRE_KIND_MANAGED, 0, 0, OUT(w)))                     \
    X(09, ACRE_OK, NULL, acre_mem_realloc(DEV, NULL, 0, STREAM, OUT(w)))                           \
    X(10, ACRE_OK, NULL, acre_plan_want(w->plan, 0, 0, 0, OUT(w)))                                 \
    X(11, ACRE_OK, NULL, acre_plan_want_for(w->plan, 1, 0, 0, 0, 1, OUT(w)))                       \
    /* more than any memory has: out of memory of the kind */                                      \
    X(20, ACRE_E_DEVICE_MEMORY, HUGE_DEVICE, acre_alloc(DEV, MOST, STREAM, OUT(w)))                \
    X(21, ACRE_E_DEVICE_MEMORY, HUGE_DEVICE, acre_pool_alloc(w->t.pool, MOST, 0, STREAM, OUT(w)))  \
    X(22, ACRE_E_DEVICE_MEMORY, HUGE_DEVICE,                                                       \
      acre_pool_alloc_zeroed(w->t.pool, MOST, 0, STREAM, OUT(w)))                                  \
    X(23, ACRE_E_DEVICE_MEMORY, HUGE_DEVICE,                                                       \
      acre_pool_alloc_many(w->t.pool, MOST, 1, STREAM, OUT(w)))                                    \
    X(24, ACRE_E_DEVICE_MEMORY, HUGE_DEVICE,                                                       \
      acre_pool_realloc(w->t.pool, NULL, MOST, STREAM, OUT(w)))                                    \
    X(25, ACRE_E_DEVICE_MEMORY, HUGE_DEVICE,                                                       \
      acre_pool_realloc(w->t.pool, w->block, MOST, STREAM, OUT(w)))                                \
    X(26, ACRE_E_DEVICE_MEMORY, HUGE_DEVICE,                                                       \
      acre_mem_alloc(DEV, ACRE_KIND_DEVICE, MOST, 0, OUT(w)))                                      \
    X(27, ACRE_E_DEVICE_MEMORY, HUGE_DEVICE,                                                       \
      acre_mem_alloc(DEV, ACRE_KIND_MANAGED, MOST, 0, OUT(w)))                                     \
    X(28, ACRE_E_HOST_MEMORY, "18446744073709551615 bytes requested, more than any host has",      \
      acre_mem_alloc(DEV, ACRE_KIND_PINNED, MOST, 0, OUT(w)))                                      \
    X(29, ACRE_E_DEVICE_MEMORY, HUGE_DEVICE, acre_mem_realloc(DEV, NULL, MOST, STREAM, OUT(w)))    \
    X(30, ACRE_E_DEVICE_MEMORY, HUGE_DEVICE, acre_mem_realloc(DEV, w->mem, MOST, STREAM, OUT(w)))  \
    X(31, ACRE_E_DEVICE_MEMORY, CARD_DEVICE, acre_alloc(DEV, CARD + 1, STREAM, OUT(w)))            \
    X(32, ACRE_E_DEVICE_MEMORY, CARD_DEVICE,                                                       \
      acre_pool_alloc(w->t.pool, CARD + 256, 0, STREAM, OUT(w)))                                   \
    X(33, ACRE_E_DEVICE_MEMORY, CARD_DEVICE,                                                       \
      acre_mem_alloc(DEV, ACRE_KIND_DEVICE, CARD + 256, 0, OUT(w)))                                \
    X(34, ACRE_E_DEVICE_MEMORY, "* elements of 1 bytes are more than any memory holds",            \
      acre_vec_grow(w->vec, MOST / 2, STREAM))                                                     \
    X(35, ACRE_E_DEVICE_MEMORY,                                                                    \
      "18446744073709551615 elements more than 100 are more than any "                             \
      "memory holds",                                                                              \
      acre_vec_grow(w->vec, MOST, STREAM))                                                         \
    X(36, ACRE_E_DEVICE_MEMORY, "* elements of 1 bytes are more than any memory holds",            \
      acre_vec_append(w->vec, w->mem, MOST / 2 + 1, STREAM))                                       \
    X(37, ACRE_E_DEVICE_MEMORY, "* elements of 1 bytes are more than any memory holds",            \
      acre_vec_resize(w->vec, MOST, STREAM))                                                       \
    X(38, ACRE_E_ADDRESS_SPACE, "* elements of 1 bytes are more than any memory holds",            \
      acre_vec_reserve(w->vec, MOST, STREAM))                                                      \
    /* a free of memory that another call frees */                                                 \
    X(40, ACRE_E_KIND, IS_MEM, acre_free(w->mem, STREAM))                                          \
    X(41, ACRE_E_KIND, IS_MEM, acre_free(w->mem + 1, STREAM))                                      \
    X(42, ACRE_E_KIND, IS_MEM, acre_free(w->pinned, STREAM))                                       \
    X(43, ACRE_E_KIND, IS_VEC, acre_free(w->in_vec, STREAM))                                       \
    X(44, ACRE_E_KIND, IS_PLAN, acre_free(w->in_plan, STREAM))                                     \
    X(45, ACRE_E_KIND, IS_MEM, acre_pool_free(w->t.pool, w->mem, STREAM))                          \
    X(46, ACRE_E_KIND, IS_VEC, acre_pool_free(w->t.pool, w->in_vec, STREAM))                       \
    X(47, ACRE_E_KIND, IS_PLAN, acre_pool_free_many(w->t.pool, OUT_OF(in_plan), 1, STREAM, NULL))  \
    X(48, ACRE_E_KIND, IS_VEC, acre_pool_realloc(w->t.pool, w->in_vec, 8, STREAM, OUT(w)))         \
    X(49, ACRE_E_KIND, IS_MEM, acre_pool_realloc(w->t.pool, w->mem, 0, STREAM, OUT(w)))            \
    X(50, ACRE_E_KIND, IS_MEM, acre_pool_record_use(w->t.pool, w->mem, STREAM))                    \
    X(51, ACRE_E_KIND, IS_POOL, acre_mem_free(DEV, w->block))                                      \
    X(52, ACRE_E_KIND, IS_VEC, acre_mem_free(DEV, w->in_vec))                                      \
    X(53, ACRE_E_KIND, IS_PLAN, acre_mem_free(DEV, w->in_plan))                                    \
    X(54, ACRE_E_KIND, IS_POOL, acre_mem_realloc(DEV, w->block, 8, STREAM, OUT(w)))                \
    X(55, ACRE_E_KIND, IS_POOL, acre_mem_realloc(DEV, w->block, 0, STREAM, OUT(w)))                \
    X(56, ACRE_E_KIND, IS_VEC, acre_mem_realloc(DEV, w->in_vec, 0, STREAM, OUT(w)))                \
    X(57, ACRE_E_KIND, "0x* is not device memory",                                                 \
      acre_mem_realloc(DEV, w->pinned, 8, STREAM, OUT(w)))                                         \
    X(58, ACRE_E_KIND, "0x* is not device memory",                                                 \
      acre_mem_realloc(DEV, w->pinned, 0, STREAM, OUT(w)))                                         \
    /* a free of memory that was freed, or of an address inside a block */                         \
    X(60, ACRE_E_POINTER, NO_BLOCK, acre_free(w->gone, STREAM))                                    \
    X(61, ACRE_E_POINTER, NO_BLOCK, acre_pool_free(w->t.pool, w->gone, STREAM))                    \
    X(62, ACRE_E_POINTER, NO_BLOCK, acre_pool_realloc(w->t.pool, w->gone, 8, STREAM, OUT(w)))      \
    X(63, ACRE_E_POINTER, NO_BLOCK, acre_pool_realloc(w->t.pool, w->gone, 0, STREAM, OUT(w)))      \
    X(64, ACRE_E_POINTER, "0x* is not in memory of acre, or it was freed",                         \
      acre_mem_free(DEV, (char *)w + 1))                                                           \
    X(65, ACRE_E_INTERIOR, "0x* lies inside a block that begins at 0x*",                           \
      acre_free(w->block + 1, STREAM))                                                             \
    X(66, ACRE_E_INTERIOR, "0x* lies 1 bytes inside a block of * bytes",                           \
      acre_mem_free(DEV, w->mem + 1))                                                              \
    /* arguments that are NULL or invalid */                                                       \
    X(70, ACRE_E_NULL, "p is NULL", acre_alloc(DEV, 8, STREAM, NULL))                              \
    X(71, ACRE_E_NULL, "p is NULL", acre_pool_alloc(w->t.pool, 8, 0, STREAM, NULL))                \
    X(72, ACRE_E_NULL, "p is NULL", acre_pool_alloc_zeroed(w->t.pool, 8, 0, STREAM, NULL))         \
    X(73, ACRE_E_NULL, "blocks is NULL", acre_pool_alloc_many(w->t.pool, 8, 1, STREAM, NULL))      \
    X(74, ACRE_E_NULL, "new_p is NULL", acre_pool_realloc(w->t.pool, NULL, 8, STREAM, NULL))       \
    X(75, ACRE_E_NULL, "p is NULL", acre_mem_alloc(DEV, ACRE_KIND_DEVICE, 8, 0, NULL))             \
    X(76, ACRE_E_NULL, "new_p is NULL", acre_mem_realloc(DEV, NULL, 8, STREAM, NULL))              \
    X(77, ACRE_E_NULL, "the device is NULL", acre_alloc(NULL, 8, STREAM, OUT(w)))                  \
    X(78, ACRE_E_NULL, "the device is NULL", acre_mem_alloc(NULL, ACRE_KIND_DEVICE, 8, 0, OUT(w))) \
    X(79, ACRE_E_NULL, "the handle of a pool is NULL", acre_pool_free(NULL, w->block, STREAM))     \
    X(80, ACRE_E_INVALID, "alignment 3 is not a power of two up to 1 GiB",                         \
      acre_pool_alloc(w->t.pool, 0, 3, STREAM, OUT(w)))                                            \
    X(81, ACRE_E_INVALID, "alignment 3 is not a power of two up to 1 GiB",                         \
      acre_pool_alloc_zeroed(w->t.pool, 8, 3, STREAM, OUT(w)))                                     \
    X(82, ACRE_E_INVALID, "flags 0x80 are invalid for kind 1",                                     \
      acre_mem_alloc(DEV, ACRE_KIND_DEVICE, 0, 128, OUT(w)))                                       \
    X(83, ACRE_E_INVALID, "memory of kind 5 cannot be allocated",                                  \
      acre_mem_alloc(DEV, ACRE_KIND_PAGEABLE, 8, 0, OUT(w)))                                       \
    X(84, ACRE_E_NULL, "from is NULL", acre_vec_append(w->vec, NULL, 1, STREAM))                   \
    /* a stream that is captured: pools allocate for the graph, others refuse */                   \
    X(90, ACRE_E_CAPTURING, "the stream is being captured",                                        \
      acre_mem_realloc(DEV, w->mem, 8 * MIB, w->captured, OUT(w)))                                 \
    X(91, ACRE_E_CAPTURING, "the stream is being captured",                                        \
      acre_mem_realloc(DEV, w->mem, 0, w->captured, OUT(w)))                                       \
    X(92, ACRE_E_CAPTURING, "the stream is being captured",                                        \
      acre_vec_append(w->vec, w->mem, 8, w->captured))                                             \
    X(93, ACRE_E_CAPTURING,                                                                        \
      "pageable memory cannot be used in a captured stream; use pinned memory",                    \
      acre_copy(DEV, w->mem, w, 8, w->captured))

/* Only on a soft device: the driver of a GPU may crash. */
#define DEAD_ROWS(X)                                                                               \
    X(100, ACRE_E_HANDLE, DEAD, acre_alloc(DEV, 8, w->dead, OUT(w)))                               \
    X(101, ACRE_E_HANDLE, DEAD, acre_pool_alloc(w->t.pool, 8, 0, w->dead, OUT(w)))                 \
    X(102, ACRE_E_HANDLE, DEAD, acre_pool_alloc(w->t.pool, 3 * MIB, 0, w->dead, OUT(w)))           \
    X(103, ACRE_E_HANDLE, DEAD, acre_pool_alloc_zeroed(w->t.pool, 8, 0, w->dead, OUT(w)))          \
    X(104, ACRE_E_HANDLE, DEAD, acre_pool_alloc_many(w->t.pool, 8, 1, w->dead, OUT(w)))            \
    X(105, ACRE_E_HANDLE, DEAD, acre_pool_realloc(w->t.pool, w->block, MIB, w->dead, OUT(w)))      \
    X(106, ACRE_E_HANDLE, DEAD, acre_pool_realloc(w->t.pool, w->block, 0, w->dead, OUT(w)))        \
    X(107, ACRE_E_HANDLE, DEAD, acre_free(w->block, w->dead))                                      \
    X(108, ACRE_E_HANDLE, DEAD, acre_pool_free(w->t.pool, w->block, w->dead))                      \
    X(109, ACRE_E_HANDLE, DEAD, acre_pool_record_use(w->t.pool, w->block, w->dead))                \
    X(110, ACRE_E_HANDLE, DEAD, acre_mem_realloc(DEV, w->mem, 8 * MIB, w->dead, OUT(w)))           \
    X(111, ACRE_E_HANDLE, DEAD, acre_mem_realloc(DEV, w->mem, 0, w->dead, OUT(w)))                 \
    X(112, ACRE_E_HANDLE, DEAD, acre_vec_append(w->vec, w->mem, 8, w->dead))                       \
    X(113, ACRE_E_HANDLE, DEAD, acre_copy(DEV, w->mem, w->pinned, 8, w->dead))                     \
    X(114, ACRE_E_HANDLE, DEAD, acre_copy(DEV, w->mem, w->pinned, MIB, w->dead))                   \
    X(115, ACRE_E_HANDLE, DEAD, acre_fill(DEV, w->mem, 1, 8, w->dead))                             \
    X(116, ACRE_E_HANDLE, DEAD, acre_stream_sync(DEV, w->dead))                                    \
    X(117, ACRE_E_HANDLE, DEAD, acre_stream_query(DEV, w->dead))

#define CARD card_bytes(w)
#define OUT_OF(field) (void *const *)(void *)&w->field
static const char HUGE_DEVICE[] = "18446744073709551615 bytes requested, * has * bytes in all";
static const char CARD_DEVICE[] = "* bytes requested, * has * bytes in all";
static const char IS_MEM[] = "0x* is memory of acre_mem_alloc: acre_mem_free frees it";
static const char IS_VEC[] = "0x* belongs to a vec: acre_vec_destroy frees it";
static const char IS_POOL[] = "0x* belongs to a pool: acre_free or acre_pool_free frees its blocks";
static const char IS_PLAN[] = "0x* belongs to a plan: acre_plan_free frees blocks of its loop, "
                              "acre_plan_destroy the rest";
static const char NO_BLOCK[] = "0x* is not a live block of a pool (double free?)";
static const char DEAD[] = "stream 0x* was destroyed, or is not a stream of soft:0: cu*: "
                           "CUDA_ERROR_INVALID_HANDLE (400)";

static size_t card_bytes(struct world *w) {
    acre_device_info info = {.struct_size = sizeof info};
    api_ok(acre_device_get_info(DEV, &info));
    return (size_t)info.total_bytes;
}

ROWS(ROW)
DEAD_ROWS(ROW)

static struct world world_begin(const char *name) {
    struct world world = {.t = begin(name, NULL)}, *w = &world;
    acre_plan_options planned = {.struct_size = sizeof planned, .device_bytes = 4 * MIB};
    w->block = alloc(&w->t, 1000);
    w->gone = alloc(&w->t, 1000);
    api_ok(acre_pool_free(w->t.pool, w->gone, STREAM));
    api_ok(acre_mem_alloc(DEV, ACRE_KIND_DEVICE, 4 * MIB, 0, (void **)(void *)&w->mem));
    api_ok(acre_mem_alloc(DEV, ACRE_KIND_PINNED, 4 * MIB, 0, (void **)(void *)&w->pinned));
    api_ok(acre_vec_create(DEV, 1, NULL, &w->vec));
    api_ok(acre_vec_grow(w->vec, 100, STREAM));
    w->in_vec = acre_vec_data(w->vec);
    api_ok(acre_plan_create(DEV, &planned, &w->plan));
    api_ok(acre_plan_want(w->plan, ACRE_PLACE_DEVICE, 1000, 0, (void **)(void *)&w->in_plan));
    api_ok(acre_stream_create(DEV, ACRE_STREAM_NON_BLOCKING, &w->captured));
    fault_push(name);
    assert_int_equal(fault_raw(name)->cuStreamCreate(&w->dead, CU_STREAM_NON_BLOCKING), 0);
    assert_int_equal(fault_raw(name)->cuStreamDestroy(w->dead), 0);
    assert_int_equal(
        fault_raw(name)->cuStreamBeginCapture(w->captured, CU_STREAM_CAPTURE_MODE_RELAXED), 0);
    fault_pop(name);
    return world;
}

/* Everything is as before the calls: the pool has its one block, and all the rest can be freed. */
static void world_end(const char *name, struct world *w) {
    CUgraph graph = NULL;
    fault_push(name);
    assert_int_equal(fault_raw(name)->cuStreamEndCapture(w->captured, &graph), 0);
    assert_int_equal(fault_raw(name)->cuGraphDestroy(graph), 0);
    fault_pop(name);
    assert_int_equal(stats_of(w->t.pool).live_blocks, 1);
    api_ok(acre_pool_free(w->t.pool, w->block, STREAM));
    api_ok(acre_mem_free(DEV, w->mem));
    api_ok(acre_mem_free(DEV, w->pinned));
    assert_int_equal(acre_vec_size(w->vec), 100);
    api_ok(acre_vec_destroy(w->vec, NULL));
    api_ok(acre_plan_destroy(w->plan));
    api_ok(acre_stream_destroy(DEV, w->captured));
    end(&w->t);
}

static void row_try(struct world *w, const struct row *row) {
    char text[512];
    w->p = (char *)w;
    acre_status got = row->make(w);
    int is_right = got == row->wanted;
    if (row->text) {
        snprintf(text, sizeof text, "%.*s: %s", (int)strcspn(row->call, "("), row->call, row->text);
        is_right &= fnmatch(text, acre_last_detail(), 0) == 0;
    } else {
        is_right &= w->p == NULL;
    }
    if (!is_right)
        fail_msg("%s: %s: %s", row->call, acre_status_name(got), acre_last_detail());
}

#define ROW_AT(number, ...) &at_##number,

TEST(details_name_the_call_and_say_what_was_wrong) {
    static const struct row *const rows[] = {ROWS(ROW_AT)};
    for (API_EACH(name)) {
        struct world world = world_begin(name);
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
            row_try(&world, rows[i]);
        world_end(name, &world);
    }
}

TEST(details_of_a_destroyed_stream_name_the_call_and_the_stream) {
    static const struct row *const rows[] = {DEAD_ROWS(ROW_AT)};
    struct world world = world_begin("soft");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        row_try(&world, rows[i]);
    world_end("soft", &world);
}

/* A request that is too large for any pool has a report, as one that is too large for the card. */
TEST(huge_requests_have_a_report_and_respect_limits) {
    const acre_kind kinds[] = {ACRE_KIND_DEVICE, ACRE_KIND_PINNED};
    const char *const steps[] = {"request less: the card has ",
                                 "request less: a pool serves at most 2.0 TiB"};
    for (int i = 0; i < 2; i++) {
        acre_pool_options options = {.struct_size = sizeof options, .kind = kinds[i]};
        struct things t = begin("soft", &options);
        char report[8192];
        size_t needed;
        void *p;
        api_expect(acre_pool_alloc(t.pool, SIZE_MAX, 0, t.stream, &p),
                   i ? ACRE_E_HOST_MEMORY : ACRE_E_DEVICE_MEMORY);
        api_ok(acre_oom_report(ACRE_OOM_TEXT, report, sizeof report, &needed));
        assert_non_null(strstr(report, steps[i]));
        assert_int_equal(stats_of(t.pool).refused, 1);
        api_ok(acre_pool_set_limits(t.pool, 0, MIB));
        api_expect(acre_pool_alloc(t.pool, SIZE_MAX, 0, t.stream, &p), ACRE_E_LIMIT);
        assert_string_equal(acre_last_detail(),
                            "acre_pool_alloc: 18446744073709551615 bytes requested; 0 of the "
                            "pool's limit of 1048576 bytes are in use");
        end(&t);
    }
}

/* A request of 0 bytes is no request: a loop of a plan does not record it. */
TEST(zero_bytes_in_the_step_of_a_loop_are_not_recorded) {
    acre_device *device = api_open("soft");
    acre_plan_options options = {.struct_size = sizeof options, .device_bytes = 4 * MIB};
    acre_plan *plan;
    api_ok(acre_plan_create(device, &options, &plan));
    for (int i = 0; i < 4; i++) {
        void *p = &plan, *block;
        api_ok(acre_plan_step_begin(plan, NULL));
        api_ok(acre_plan_alloc(plan, ACRE_PLACE_DEVICE, 0, 0, &p));
        assert_null(p);
        api_ok(acre_plan_alloc(plan, ACRE_PLACE_DEVICE, 1000, 0, &block));
        api_ok(acre_plan_free(plan, p));
        api_ok(acre_plan_free(plan, block));
        if (i == 3) {
            api_expect(acre_plan_alloc(plan, ACRE_PLACE_DEVICE, SIZE_MAX, 0, &p),
                       ACRE_E_DEVICE_MEMORY);
            assert_int_equal(strncmp(acre_last_detail(), "acre_plan_alloc: 1844", 21), 0);
            api_expect(acre_plan_free(plan, &plan), ACRE_E_POINTER);
            assert_int_equal(strncmp(acre_last_detail(), "acre_plan_free: 0x", 18), 0);
        }
        api_ok(acre_plan_step_end(plan));
    }
    acre_plan_stats stats = {.struct_size = sizeof stats};
    api_ok(acre_plan_get_stats(plan, &stats));
    assert_int_equal(stats.hits, 3);
    assert_int_equal(stats.misses, 0);
    api_ok(acre_plan_destroy(plan));
    api_ok(acre_close(device));
}

/* ---- lost devices ---- */

static void expect_detail(acre_status got, const char *pattern, int line) {
    if (got == ACRE_E_DEVICE_LOST && fnmatch(pattern, acre_last_detail(), 0) == 0)
        return;
    print_error("line %d: %s: %s\n", line, acre_status_name(got), acre_last_detail());
    fail();
}
#define EXPECT_LOST(call, pattern) expect_detail(call, pattern, __LINE__)

#define RACE                                                                                       \
    "CUDA_ERROR_LAUNCH_FAILED (719), race: * bytes are used without order by stream * step * "     \
    "(fill 0x*) and by stream * step * (fill 0x*): let one stream wait for the other; both use "   \
    "chunk * at offset 0x*"

/* The program learns which two uses have no order, not that "a kernel failed": none ran. */
TEST(race_on_a_soft_device_is_the_reason_of_its_loss) {
    setenv("ACRE_SOFT_CHECK", "1", 1);
    acre_device *device = api_open("soft");
    acre_stream streams[2];
    void *p, *q;
    api_ok(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &streams[0]));
    api_ok(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &streams[1]));
    api_ok(acre_mem_alloc(device, ACRE_KIND_DEVICE, 4 * MIB, 0, &p));
    api_ok(acre_fill(device, p, 1, 4 * MIB, streams[0]));
    api_ok(acre_fill(device, p, 2, 4 * MIB, streams[1]));
    acre_status status = acre_stream_sync(device, streams[0]);
    EXPECT_LOST(status ? status : acre_stream_sync(device, streams[1]),
                "acre_stream_sync: cuStreamSynchronize: " RACE);
    EXPECT_LOST(acre_copy(device, p, p, 8, NULL),
                "acre_copy: soft:0 was lost with " RACE "; restart the process");
    EXPECT_LOST(acre_alloc(device, 8, NULL, &q),
                "acre_alloc: soft:0 was lost with " RACE "; restart the process");
    api_ok(acre_close(device));
    unsetenv("ACRE_SOFT_CHECK");
}

int main(void) {
    return tests_run("reasons");
}
