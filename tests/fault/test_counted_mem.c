/* The counted loop over memory and copies: the n-th driver call of a function fails, alone or with
 * all later ones, for n = 1, 2, ... until a run in which none fails. After each run: the expected
 * status, no output, the records unchanged, no device memory lost, the caller's context and capture
 * mode untouched. The same call works once the driver does, and trim leaves nothing. */
#include "api/api_memory.h"
#include "fault_counted.h"

enum { SMALL = 4096, STAGED = 2 << 20, LARGE = 5 << 20 };

/* Arguments of the functions under test; created once for each device. */
struct things {
    const char *name;
    acre_device *device;
    acre_stream stream;
    struct api_buffer block, pinned, managed, page;
    unsigned char *own; /* LARGE bytes to register */
    void *out;
};

static struct things things_begin(const char *name) {
    struct things t = {.name = name, .device = api_open(name)};
    api_ok(acre_stream_create(t.device, ACRE_STREAM_NON_BLOCKING, &t.stream));
    t.block = api_buffer_make(t.device, SORT_DEVICE, LARGE);
    t.pinned = api_buffer_make(t.device, SORT_PINNED, LARGE);
    t.managed = api_buffer_make(t.device, SORT_MANAGED, LARGE);
    t.page = api_buffer_make(t.device, SORT_PAGEABLE, LARGE);
    t.own = aligned_alloc(65536, (LARGE + 65535) / 65536 * 65536);
    assert_non_null(t.own);
    memset(t.own, 1, LARGE);
    return t;
}

static void things_end(struct things *t) {
    api_buffer_end(&t->block);
    api_buffer_end(&t->pinned);
    api_buffer_end(&t->managed);
    api_buffer_end(&t->page);
    free(t->own);
    api_ok(acre_stream_destroy(t->device, t->stream));
    api_ok(acre_close(t->device));
}

/* Managed memory uses device memory only for pages that are there. The prefetch moves all of them
 * first. */
static uint64_t things_free_bytes(const struct things *t) {
    api_ok(acre_mem_prefetch(t->device, t->managed.at, LARGE, ACRE_PLACE_DEVICE, NULL));
    api_ok(acre_device_sync(t->device));
    return fault_free_bytes(t->name);
}

/* ---- the functions ---- */

#define ALLOC(word, kind, flags)                                                                   \
    static acre_status alloc_##word(struct things *t) {                                            \
        t->out = t;                                                                                \
        return acre_mem_alloc(t->device, kind, LARGE, flags, &t->out);                             \
    }                                                                                              \
    static void make_##word(struct things *t) {                                                    \
        api_ok(acre_mem_alloc(t->device, kind, LARGE, flags, &t->out));                            \
    }
ALLOC(device, ACRE_KIND_DEVICE, 0)
ALLOC(pinned, ACRE_KIND_PINNED, 0)
ALLOC(combined, ACRE_KIND_PINNED, ACRE_MEM_WRITE_COMBINED)
ALLOC(mapped, ACRE_KIND_MAPPED, ACRE_MEM_PORTABLE)
ALLOC(managed, ACRE_KIND_MANAGED, ACRE_MEM_ATTACH_HOST)

static acre_status free_out(struct things *t) {
    return acre_mem_free(t->device, t->out);
}
static acre_status register_own(struct things *t) {
    return acre_mem_register(t->device, t->own, LARGE, 0);
}
static void make_registered(struct things *t) {
    api_ok(register_own(t));
}
static acre_status unregister_own(struct things *t) {
    return acre_mem_unregister(t->device, t->own);
}
static acre_status device_pointer(struct things *t) {
    t->out = t;
    acre_status status = acre_mem_device_pointer(t->device, t->pinned.at + 5, &t->out);
    assert_ptr_equal(t->out, status ? NULL : t->pinned.at + 5);
    return status;
}
static acre_status prefetch(struct things *t) {
    return acre_mem_prefetch(t->device, t->managed.at, SMALL, ACRE_PLACE_DEVICE, t->stream);
}
static acre_status advise(struct things *t) {
    return acre_mem_advise(t->device, t->managed.at, SMALL, ACRE_ADVICE_NOT_PREFER, 0);
}
static acre_status attach(struct things *t) {
    return acre_mem_attach(t->device, t->managed.at, ACRE_ATTACH_GLOBAL, t->stream);
}
static acre_status query_unknown(struct things *t) {
    acre_mem_info info = {.struct_size = sizeof info};
    acre_status status = acre_mem_query(t->device, t->page.at, &info);
    assert_int_equal(info.kind, status ? 0 : ACRE_KIND_PAGEABLE);
    return status;
}
static acre_status copy_direct(struct things *t) {
    return acre_copy(t->device, t->block.at, t->pinned.at, LARGE, t->stream);
}
static acre_status copy_plane(struct things *t) {
    return acre_copy_2d(t->device, t->block.at, 64, t->pinned.at, 100, 50, 99, t->stream);
}
static acre_status copy_expected(struct things *t) {
    return acre_copy_as(t->device, ACRE_DEVICE_TO_HOST, t->pinned.at, t->block.at, SMALL,
                        t->stream);
}
static acre_status copy_waiting(struct things *t) {
    return acre_copy_sync(t->device, t->pinned.at, t->block.at, SMALL);
}
static acre_status copy_small_to(struct things *t) {
    return acre_copy(t->device, t->block.at, t->page.at, SMALL, t->stream);
}
static acre_status copy_small_from(struct things *t) {
    return acre_copy(t->device, t->page.at, t->block.at, SMALL, t->stream);
}
static acre_status copy_pages(struct things *t) {
    return acre_copy(t->device, t->page.at, t->own, LARGE, t->stream);
}
static acre_status copy_staged_to(struct things *t) {
    return acre_copy(t->device, t->block.at, t->page.at, LARGE, t->stream);
}
static acre_status copy_staged_from(struct things *t) {
    return acre_copy(t->device, t->page.at, t->block.at, LARGE, t->stream);
}
static acre_status copy_staged_plane(struct things *t) {
    return acre_copy_2d(t->device, t->block.at, 5000, t->page.at, 5001, 4999, 1000, t->stream);
}
/* Copies of STAGED bytes in both directions create all staging buffers. */
static void make_staging(struct things *t) {
    api_ok(acre_copy(t->device, t->block.at, t->page.at, STAGED, t->stream));
    api_ok(acre_copy(t->device, t->page.at, t->block.at, STAGED, t->stream));
}
static acre_status fill_block(struct things *t) {
    return acre_fill(t->device, t->block.at, 1, LARGE, t->stream);
}
static acre_status fill_waiting(struct things *t) {
    return acre_fill_sync(t->device, t->managed.at, 1, SMALL);
}
static acre_status fill_page(struct things *t) {
    return acre_fill(t->device, t->page.at, 1, SMALL, t->stream);
}
static acre_status trim(struct things *t) {
    return acre_trim(t->device);
}

enum {
    MAKES = 1,       /* t->out is a block after success */
    REGISTERS = 2,   /* t->own is registered after success */
    GIVES_BACK = 4,  /* never fails: a refused release waits in limbo */
    STAGES = 8,      /* copies directly if staging cannot be created */
    IS_OF_HOST = 16, /* out of memory means host memory */
};

static const struct op {
    const char *name;
    acre_status (*call)(struct things *t);
    void (*before)(struct things *t); /* or NULL */
    unsigned flags;
    /* Driver calls whose failure the caller does not see: the pop and the reset of the capture
     * mode. acre does both in another way. */
    unsigned unseen;
} ops[] = {
    {"alloc device", alloc_device, NULL, MAKES, 2},
    {"alloc pinned", alloc_pinned, NULL, MAKES | IS_OF_HOST, 2},
    {"alloc combined", alloc_combined, NULL, MAKES | IS_OF_HOST, 2},
    {"alloc mapped", alloc_mapped, NULL, MAKES | IS_OF_HOST, 2},
    {"alloc managed", alloc_managed, NULL, MAKES, 2},
    {"free device", free_out, make_device, GIVES_BACK, 0},
    {"free pinned", free_out, make_pinned, GIVES_BACK, 0},
    {"free combined", free_out, make_combined, GIVES_BACK, 0},
    {"free mapped", free_out, make_mapped, GIVES_BACK, 0},
    {"free managed", free_out, make_managed, GIVES_BACK, 0},
    {"register", register_own, NULL, REGISTERS | IS_OF_HOST, 2},
    {"unregister", unregister_own, make_registered, GIVES_BACK, 0},
    {"device pointer", device_pointer, NULL, 0, 1},
    {"prefetch", prefetch, NULL, 0, 1},
    {"advise", advise, NULL, 0, 1},
    {"attach", attach, NULL, 0, 1},
    {"query", query_unknown, NULL, 0, 1},
    {"copy direct", copy_direct, NULL, 0, 1},
    {"copy plane", copy_plane, NULL, 0, 1},
    {"copy as", copy_expected, NULL, 0, 1},
    {"copy sync", copy_waiting, NULL, 0, 2},
    {"copy small to", copy_small_to, NULL, 0, 1},
    {"copy small from", copy_small_from, NULL, 0, 1},
    {"copy pages", copy_pages, NULL, 0, 4},
    {"copy staged to", copy_staged_to, make_staging, 0, 3},
    {"copy staged from", copy_staged_from, make_staging, 0, 3},
    {"copy staged plane", copy_staged_plane, make_staging, 0, 3},
    {"copy staging to", copy_staged_to, NULL, STAGES, 0},
    {"copy staging from", copy_staged_from, NULL, STAGES, 0},
    {"fill", fill_block, NULL, 0, 1},
    {"fill sync", fill_waiting, NULL, 0, 2},
    {"fill page", fill_page, NULL, 0, 3},
    {"trim", trim, make_staging, STAGES, 0},
};
enum { OPS = sizeof ops / sizeof ops[0] };

/* ---- the loop ---- */

static void expect_status(const struct counted *run, const struct op *op) {
    int is_right = counted_is_right(run, op->flags & IS_OF_HOST ? COUNTED_HOST : COUNTED_DEVICE);
    /* Creating the context takes device memory, whatever the function allocates. */
    is_right |= op->flags & IS_OF_HOST && counted_is_right(run, COUNTED_DEVICE) &&
                strncmp(acre_last_detail(), "cuMem", 5) != 0;
    if (op->flags & GIVES_BACK)
        is_right = run->status == ACRE_OK;
    counted_expect_status(run, is_right);
}

static void expect_books(const struct op *op, const struct counted *run,
                         const acre_device_stats *before, const acre_device_stats *after) {
    int has_more = run->status == ACRE_OK && op->flags & MAKES;
    int has_registered = run->status == ACRE_OK && op->flags & REGISTERS;
    uint64_t gone = op->flags & GIVES_BACK && op->before != make_registered;
    uint64_t gone_registered = op->flags & GIVES_BACK && op->before == make_registered;
    assert_int_equal(after->mem_blocks, before->mem_blocks + (uint64_t)has_more - gone);
    assert_int_equal(after->mem_bytes,
                     before->mem_bytes + (has_more ? LARGE : 0) - gone * (uint64_t)LARGE);
    assert_int_equal(after->mem_registered,
                     before->mem_registered + (uint64_t)has_registered - gone_registered);
    /* Staging that acre cannot wait for is destroyed, and the driver refuses that too. */
    if (run->status && !(op->flags & STAGES) && run->mode == ACRE__FAULT_ONCE)
        assert_int_equal(after->limbo_count, before->limbo_count);
}

/* Undoes a successful call, while the driver works. */
static void undo(struct things *t, const struct op *op) {
    if (op->flags & MAKES)
        api_ok(acre_mem_free(t->device, t->out));
    if (op->flags & REGISTERS)
        api_ok(acre_mem_unregister(t->device, t->own));
}

static void run_one(struct things *t, const struct op *op, struct counted *run) {
    if (op->before)
        op->before(t);
    acre_device_stats before = api_stats(t->device);
    counted_call(run, op->call, t);
    assert_true(run->refusals <= run->fired);
    if (run->mode == ACRE__FAULT_FROM)
        fault_sync(t->name); /* waits for work that the call could not wait for */
    expect_status(run, op);
    if (op->flags & MAKES && run->status)
        assert_null(t->out);
    acre_device_stats after = api_stats(t->device);
    expect_books(op, run, &before, &after);

    /* Repeats the call once the driver works. Calls that free have succeeded already. */
    if (!(op->flags & GIVES_BACK)) {
        if (run->status == ACRE_OK)
            undo(t, op);
        api_ok(op->call(t));
        undo(t, op);
    }
    api_ok(acre_trim(t->device));
    after = api_stats(t->device);
    assert_int_equal(after.limbo_count + after.staging_bytes, 0);
}

/* The driver of a GPU sometimes keeps a little memory for events and streams. */
static uint64_t slack_of(const char *name) {
    return strncmp(name, "soft", 4) == 0 ? 0 : 8 << 20;
}

TEST(every_function_bears_every_refusal) {
    for (API_EACH(name)) {
        struct things t = things_begin(name);
        for (size_t i = 0; i < OPS; i++) {
            make_staging(&t); /* warm-up: a driver keeps memory after its first use */
            api_ok(acre_trim(t.device));
            uint64_t free_bytes = things_free_bytes(&t);
            acre_device_stats books = api_stats(t.device);
            struct counted run = {.name = name, .device = t.device, .op = ops[i].name};
            if (!(ops[i].flags & (GIVES_BACK | STAGES)))
                run.unseen = &ops[i].unseen;
            assert_true(counted_loop(run, COUNTED_SHORT, run_one, &t, &ops[i]) > 0);
            acre_device_stats after = api_stats(t.device);
            assert_int_equal(after.mem_blocks, books.mem_blocks);
            assert_int_equal(after.mem_bytes, books.mem_bytes);
            assert_int_equal(after.mem_registered, books.mem_registered);
            assert_true(things_free_bytes(&t) + slack_of(name) >= free_bytes);
        }
        /* Copies still move the data. */
        memset(t.page.at, 7, LARGE);
        api_ok(copy_staged_to(&t));
        memset(t.page.at, 0, LARGE);
        api_ok(copy_staged_from(&t));
        assert_int_equal(t.page.at[0], 7);
        assert_memory_equal(t.page.at, t.page.at + 1, LARGE - 1);
        things_end(&t);
        assert_int_equal(fault_context_is_active(name), 0);
    }
}

/* With several threads the order of driver calls changes from run to run. Any of them may fail. */
TEST(staging_of_several_threads_bears_every_refusal) {
    setenv("ACRE_COPY_THREADS", "4", 1);
    for (API_EACH(name)) {
        struct things t = things_begin(name);
        size_t bytes = ROUNDS(12, 5) * MIB;
        struct api_buffer block = api_buffer_make(t.device, SORT_DEVICE, bytes);
        struct api_buffer page = api_buffer_make(t.device, SORT_PAGEABLE, bytes);
        for (int is_from = 0; is_from < 2; is_from++) {
            void *to = is_from ? page.at : block.at, *from = is_from ? block.at : page.at;
            uint32_t step = 1, nth = 1;
            for (uint64_t fired = 1; fired; nth += step, step += step < 5) {
                fault_on(NULL, nth, nth % 2 ? ACRE__FAULT_ONCE : ACRE__FAULT_FROM,
                         CUDA_ERROR_UNKNOWN);
                acre_status status = acre_copy(t.device, to, from, bytes, t.stream);
                fired = fault_off();
                counted_restore_thread(name);
                fault_sync(name);
                assert_true(status == ACRE_OK || (fired && status == ACRE_E_DRIVER));
                memset(page.at, (int)nth, bytes);
                api_ok(acre_copy(t.device, block.at, page.at, bytes, t.stream));
                memset(page.at, 255, bytes);
                api_ok(acre_copy(t.device, page.at, block.at, bytes, t.stream));
                assert_int_equal(page.at[0], nth % 256);
                assert_memory_equal(page.at, page.at + 1, bytes - 1);
                if (nth % 3 == 0)
                    api_ok(acre_trim(t.device));
            }
            assert_true(nth > 40);
        }
        api_ok(acre_trim(t.device));
        acre_device_stats stats = api_stats(t.device);
        assert_int_equal(stats.limbo_count + stats.staging_bytes, 0);
        api_buffer_end(&block);
        api_buffer_end(&page);
        things_end(&t);
    }
    setenv("ACRE_COPY_THREADS", "1", 1);
}

/* ---- limbo ---- */

TEST(limbo_of_memory_is_emptied_by_trim) {
    for (API_EACH(name)) {
        struct things t = things_begin(name);
        uint64_t free_bytes = things_free_bytes(&t);
        void (*const makes[])(struct things *) = {make_device, make_pinned, make_combined,
                                                  make_mapped, make_managed};
        for (size_t i = 0; i < 5; i++) {
            makes[i](&t);
            fault_on(NULL, 1, ACRE__FAULT_FROM, CUDA_ERROR_UNKNOWN);
            api_ok(acre_mem_free(t.device, t.out));
            fault_off();
            /* Dead for the caller anyway. */
            api_expect(acre_mem_free(t.device, t.out), ACRE_E_POINTER);
        }
        make_registered(&t);
        fault_on("cuMemHostUnregister", 1, ACRE__FAULT_FROM, CUDA_ERROR_UNKNOWN);
        api_ok(acre_mem_unregister(t.device, t.own));
        fault_off();
        api_expect(acre_mem_unregister(t.device, t.own), ACRE_E_POINTER);
        /* The driver still has it registered. */
        api_expect(acre_mem_register(t.device, t.own, LARGE, 0), ACRE_E_REGISTERED);
        assert_int_equal(api_stats(t.device).limbo_count, 6);
        assert_true(things_free_bytes(&t) < free_bytes);

        fault_on(NULL, 1, ACRE__FAULT_FROM, CUDA_ERROR_UNKNOWN);
        api_expect(acre_trim(t.device), ACRE_E_DRIVER);
        fault_off();
        counted_restore_thread(name);
        fault_sync(name);
        assert_int_equal(api_stats(t.device).limbo_count, 6);
        api_ok(acre_trim(t.device));
        acre_device_stats stats = api_stats(t.device);
        assert_int_equal(stats.limbo_count, 0);
        assert_int_equal(stats.limbo_retired, 6);
        assert_true(things_free_bytes(&t) + slack_of(name) >= free_bytes);
        api_ok(acre_mem_register(t.device, t.own, LARGE, 0));
        api_ok(acre_mem_unregister(t.device, t.own));
        things_end(&t);
    }
}

/* Buffers, streams and events of staging whose release is refused wait in limbo, too. */
TEST(limbo_of_staging_is_emptied_by_trim) {
    const char *const entries[] = {"cuMemHostUnregister", "cuStreamDestroy", "cuEventDestroy"};
    for (API_EACH(name)) {
        struct things t = things_begin(name);
        for (size_t i = 0; i < 3; i++) {
            make_staging(&t);
            fault_on(entries[i], 1, ACRE__FAULT_FROM, CUDA_ERROR_UNKNOWN);
            api_expect(acre_trim(t.device), ACRE_E_DRIVER);
            fault_off();
            assert_true(api_stats(t.device).limbo_count >= 2); /* one for each direction */
            assert_int_equal(api_stats(t.device).staging_bytes, 0);
            api_ok(copy_staged_to(&t)); /* creates new ones meanwhile */
            api_ok(acre_trim(t.device));
            assert_int_equal(api_stats(t.device).limbo_count, 0);
        }
        things_end(&t);
    }
}

/* ---- sticky ---- */

/* The device is lost in the middle of a staged copy: the copy returns the status and does not hang,
 * and acre_close works. */
TEST(staged_copy_that_loses_the_device_ends) {
    const char *const threads[] = {"1", "4"};
    for (API_EACH(name)) {
        for (size_t k = 0; k < 4; k++) {
            setenv("ACRE_COPY_THREADS", threads[k / 2], 1);
            for (uint32_t nth = 1, is_over = 0; !is_over;
                 nth += nth < 12 ? ROUNDS(1, 3) : ROUNDS(5, 11)) {
                struct things t = things_begin(name);
                size_t bytes = 6 * MIB;
                struct api_buffer block = api_buffer_make(t.device, SORT_DEVICE, bytes);
                unsigned char *page = calloc(1, bytes);
                assert_non_null(page);
                void *to = k % 2 ? page : block.at, *from = k % 2 ? block.at : page;
                if (nth % 2)
                    make_staging(&t); /* every other run starts with staging */
                fault_on(NULL, nth, ACRE__FAULT_STICKY, CUDA_ERROR_LAUNCH_FAILED);
                acre_status status = acre_copy(t.device, to, from, bytes, t.stream);
                is_over = acre__fault_fired() == 0;
                if (status != ACRE_OK) {
                    api_expect(status, ACRE_E_DEVICE_LOST);
                    api_expect(acre_copy(t.device, to, from, bytes, t.stream), ACRE_E_DEVICE_LOST);
                    api_expect(acre_trim(t.device), ACRE_E_DEVICE_LOST);
                    api_ok(acre_mem_free(t.device, block.at));
                }
                /* The soft device continues to work behind the wrapper. All transfers must finish
                 * before the pages are freed. */
                fault_sync(name);
                api_ok(acre_close(t.device));
                fault_off();
                counted_restore_thread(name);
                free(page);
                free(t.page.at);
                free(t.own);
            }
        }
        acre_device *device = api_open(name); /* releases the contexts */
        assert_int_equal(api_stats(device).staging_bytes, 0);
        api_ok(acre_close(device));
        assert_int_equal(fault_context_is_active(name), 0);
    }
    setenv("ACRE_COPY_THREADS", "1", 1);
}

int main(void) {
    setenv("ACRE_COPY_THREADS", "1", 1); /* the same calls in the same order in every run */
    /* Blocks of the driver; test_counted_space.c tests blocks of chunks. */
    setenv("ACRE_VMM", "off", 1);
    fault_begin();
    return tests_run("counted_mem");
}
