/* Sparse ranges through the public API, on every device: contents, reuse of mapped pieces, budgets,
 * trim, lack of memory, misuse, threads, fork, and a device without virtual memory management. */
#include <pthread.h>

#include "api_range.h"
#include "support/leave.h"
#include "support/rounds.h"
#include "support/shadow.h"

static acre_stream stream_make(acre_device *device) {
    acre_stream stream;
    api_ok(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &stream));
    return stream;
}

/* ---- pieces ---- */

API_TEST(range_pieces_anywhere_keep_their_contents) {
    static const uint64_t at[] = {0, 3, 63, 64, 127};
    acre_stream stream = stream_make(device);
    acre_range *range = range_in(device, NULL, 128);
    char *data = acre_range_data(range);
    assert_non_null(data);
    assert_int_equal(range_stats(range).address_bytes, 128 * piece);
    for (size_t i = 0; i < 5; i++) {
        api_ok(piece_commit(range, at[i], 1, stream));
        piece_stamp(device, range, at[i], (unsigned char)(10 + i), stream);
    }
    assert_int_equal(range_stats(range).committed_bytes, 5 * piece);
    assert_int_equal(api_stats(device).range_bytes, 5 * piece);
    api_ok(piece_decommit(range, 3, 1, stream));
    for (size_t i = 0; i < 5; i++)
        if (at[i] != 3)
            piece_check(device, range, at[i], (unsigned char)(10 + i), stream);
    assert_ptr_equal(acre_range_data(range), data);
    api_ok(acre_range_destroy(range, stream));
    assert_int_equal(api_stats(device).ranges, 0);
    api_ok(acre_stream_destroy(device, stream));
}

API_TEST(range_committed_again_is_still_mapped) {
    acre_stream stream = stream_make(device);
    acre_range *range = range_in(device, NULL, 16);
    api_ok(piece_commit(range, 4, 8, stream));
    assert_int_equal(range_stats(range).pieces_mapped, 8);
    uint64_t maps = api_stats(device).driver_maps, creates = api_stats(device).driver_creates;
    uint64_t accesses = api_stats(device).driver_accesses;
    for (int i = 0; i < 10; i++) {
        api_ok(piece_decommit(range, 5, 3, stream));
        assert_int_equal(range_stats(range).idle_bytes, 3 * piece);
        api_ok(piece_commit(range, 5, 3, stream));
        assert_int_equal(range_stats(range).idle_bytes, 0);
    }
    acre_range_stats stats = range_stats(range);
    assert_int_equal(stats.pieces_reused, 30);
    assert_int_equal(stats.pieces_mapped, 8);
    assert_int_equal(stats.committed_bytes, 8 * piece);
    assert_int_equal(stats.peak_bytes, 8 * piece);
    assert_int_equal(api_stats(device).driver_maps, maps);
    assert_int_equal(api_stats(device).driver_creates, creates);
    assert_int_equal(api_stats(device).driver_accesses, accesses);
    api_ok(acre_range_destroy(range, stream));
    api_ok(acre_stream_destroy(device, stream));
}

/* A commit over pieces of every state, twice: those already committed keep their contents. */
API_TEST(range_commit_over_committed_and_idle_pieces_fills_the_gaps) {
    acre_stream stream = stream_make(device);
    acre_range *range = range_in(device, NULL, 8);
    api_ok(piece_commit(range, 1, 1, stream));
    api_ok(piece_commit(range, 4, 2, stream));
    piece_stamp(device, range, 1, 1, stream);
    piece_stamp(device, range, 4, 4, stream);
    api_ok(piece_decommit(range, 5, 1, stream));
    api_ok(piece_commit(range, 0, 8, stream));
    api_ok(piece_commit(range, 0, 8, stream));
    acre_range_stats stats = range_stats(range);
    assert_int_equal(stats.committed_bytes, 8 * piece);
    assert_int_equal(stats.pieces_mapped, 8);
    assert_int_equal(stats.pieces_reused, 1);
    piece_check(device, range, 1, 1, stream);
    piece_check(device, range, 4, 4, stream);
    /* All bytes are usable, across the borders of pieces. */
    api_ok(acre_fill(device, acre_range_data(range), 9, 8 * piece, stream));
    for (uint64_t i = 0; i < 8; i++)
        piece_check(device, range, i, 9, stream);
    api_ok(piece_decommit(range, 0, 8, stream));
    api_ok(piece_decommit(range, 0, 8, stream)); /* nothing is left to decommit */
    assert_int_equal(range_stats(range).committed_bytes, 0);
    api_ok(acre_range_destroy(range, stream));
    api_ok(acre_stream_destroy(device, stream));
}

struct parts {
    acre_range_part at[8];
    size_t count, most;
};

static int parts_add(void *user, const acre_range_part *part) {
    struct parts *parts = user;
    parts->at[parts->count++] = *part;
    return parts->count == parts->most;
}

API_TEST(range_walk_visits_committed_and_idle_parts) {
    acre_stream stream = stream_make(device);
    acre_range *range = range_in(device, NULL, 10);
    struct parts parts = {.most = 8};
    api_ok(acre_range_walk(range, parts_add, &parts));
    assert_int_equal(parts.count, 0);
    api_ok(piece_commit(range, 1, 4, stream));
    api_ok(piece_commit(range, 9, 1, stream));
    api_ok(piece_decommit(range, 3, 1, stream));
    api_ok(acre_range_walk(range, parts_add, &parts));
    static const struct {
        uint64_t first, count;
        uint32_t is_committed;
    } wanted[] = {{1, 2, 1}, {3, 1, 0}, {4, 1, 1}, {9, 1, 1}};
    assert_int_equal(parts.count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(parts.at[i].struct_size, sizeof(acre_range_part));
        assert_int_equal(parts.at[i].offset, wanted[i].first * piece);
        assert_int_equal(parts.at[i].bytes, wanted[i].count * piece);
        assert_int_equal(parts.at[i].is_committed, wanted[i].is_committed);
        assert_ptr_equal(parts.at[i].address, piece_at(range, wanted[i].first));
    }
    parts = (struct parts){.most = 2};
    api_ok(acre_range_walk(range, parts_add, &parts));
    assert_int_equal(parts.count, 2);
    api_ok(acre_range_destroy(range, stream));
    api_ok(acre_stream_destroy(device, stream));
}

/* Queries and copies know which pieces are committed. The range has more pieces than a word of its
 * bits, so that both ends of a run are found across words. */
API_TEST(range_addresses_are_known_by_piece) {
    acre_stream stream = stream_make(device);
    acre_range *range = range_in(device, NULL, 256);
    char page[64] = {0};
    acre_mem_info info = {.struct_size = sizeof info};
    api_ok(piece_commit(range, 60, 132, stream)); /* 60 .. 191 */
    api_ok(acre_mem_query(device, piece_at(range, 100) + 5, &info));
    assert_int_equal(info.kind, ACRE_KIND_DEVICE);
    assert_ptr_equal(info.base, piece_at(range, 60));
    assert_int_equal(info.bytes, 132 * piece);
    assert_int_equal(info.usable_bytes, 132 * piece);
    api_ok(piece_decommit(range, 128, 1, stream));
    api_ok(acre_mem_query(device, piece_at(range, 127), &info));
    assert_int_equal(info.bytes, (128 - 60) * piece);
    api_ok(acre_mem_query(device, piece_at(range, 191), &info));
    assert_ptr_equal(info.base, piece_at(range, 129));
    api_ok(acre_mem_query(device, piece_at(range, 128), &info));
    assert_int_equal(info.usable_bytes, 0);
    api_expect(acre_copy(device, piece_at(range, 128), page, 64, stream), ACRE_E_POINTER);
    assert_non_null(strstr(acre_last_detail(), "acre_range_commit"));
    api_expect(acre_copy(device, piece_at(range, 128) - 32, page, 64, stream), ACRE_E_RANGE);
    api_expect(acre_fill(device, piece_at(range, 0), 1, 64, stream), ACRE_E_POINTER);
    api_expect(acre_mem_free(device, acre_range_data(range)), ACRE_E_KIND);
    assert_non_null(strstr(acre_last_detail(), "acre_range_destroy"));
    api_ok(acre_range_destroy(range, stream));
    api_ok(acre_stream_destroy(device, stream));
}

/* ---- budgets ---- */

API_TEST(range_budget_moves_idle_memory_to_the_range_that_needs_it) {
    acre_stream stream = stream_make(device);
    acre_range_budget *budget;
    api_ok(acre_range_budget_create(device, 6 * piece, &budget));
    acre_range *a = range_in(device, budget, 16), *b = range_in(device, budget, 16);
    api_ok(piece_commit(a, 0, 4, stream));
    api_ok(piece_commit(b, 8, 2, stream));
    piece_stamp(device, a, 1, 1, stream);
    piece_stamp(device, b, 8, 8, stream);
    uint64_t creates = api_stats(device).driver_creates;
    api_expect(piece_commit(b, 0, 1, stream), ACRE_E_LIMIT);
    assert_int_equal(range_stats(b).committed_bytes, 2 * piece);
    api_ok(piece_decommit(a, 2, 2, stream));
    api_ok(acre_stream_sync(device, stream));
    api_expect(piece_commit(b, 0, 3, stream), ACRE_E_LIMIT);
    assert_int_equal(range_stats(a).idle_bytes, 2 * piece); /* a hopeless request moves nothing */
    api_ok(piece_commit(b, 0, 2, stream));
    assert_int_equal(range_stats(a).idle_bytes, 0);
    assert_int_equal(range_stats(a).pieces_moved, 2);
    assert_int_equal(api_stats(device).driver_creates, creates);
    piece_stamp(device, b, 0, 5, stream);
    piece_check(device, a, 1, 1, stream);
    piece_check(device, b, 8, 8, stream);
    piece_check(device, b, 0, 5, stream);
    acre_range_stats stats = budget_stats(budget);
    assert_int_equal(stats.committed_bytes, 6 * piece);
    assert_int_equal(stats.limit_bytes, 6 * piece);
    assert_int_equal(stats.peak_bytes, 6 * piece);
    assert_int_equal(stats.ranges, 2);
    assert_int_equal(stats.address_bytes, 32 * piece);
    api_expect(acre_range_budget_destroy(budget), ACRE_E_BUSY);
    api_ok(acre_range_destroy(a, stream));
    stats = budget_stats(budget);
    assert_int_equal(stats.committed_bytes, 4 * piece);
    assert_int_equal(stats.pieces_moved, 2); /* counted in the destroyed range */
    api_ok(acre_range_destroy(b, stream));
    api_ok(acre_range_budget_destroy(budget));
    api_ok(acre_stream_destroy(device, stream));
}

/* Idle memory in pieces of another size cannot be mapped as it is, but makes room. */
API_TEST(range_budget_serves_pieces_of_several_sizes) {
    acre_stream stream = stream_make(device);
    acre_range_budget *budget;
    api_ok(acre_range_budget_create(device, 6 * piece, &budget));
    acre_range_options options = {
        .struct_size = sizeof options, .budget = budget, .piece_bytes = 4 * piece};
    acre_range *large, *small = range_in(device, budget, 8);
    api_ok(acre_range_create(device, 5 * piece, &options, &large));
    assert_int_equal(range_stats(large).address_bytes, 8 * piece); /* rounded up */
    api_ok(piece_commit(small, 0, 6, stream));
    api_ok(piece_decommit(small, 0, 5, stream));
    api_ok(acre_stream_sync(device, stream));
    api_ok(acre_range_commit(large, 4 * piece, 4 * piece, stream));
    acre_range_stats stats = budget_stats(budget);
    assert_int_equal(stats.committed_bytes, 5 * piece);
    assert_int_equal(stats.idle_bytes, 1 * piece); /* no more was unmapped than needed */
    piece_stamp(device, large, 7, 3, stream);
    piece_check(device, large, 7, 3, stream);
    api_ok(acre_range_decommit(large, 4 * piece, 4 * piece, stream));
    api_ok(acre_stream_sync(device, stream));
    api_ok(piece_commit(small, 0, 6, stream));
    assert_int_equal(budget_stats(budget).committed_bytes, 6 * piece);
    assert_int_equal(budget_stats(budget).idle_bytes, 0);
    api_expect(acre_range_commit(large, piece, 4 * piece, stream), ACRE_E_INVALID);
    api_ok(acre_range_destroy(large, stream));
    api_ok(acre_range_destroy(small, stream));
    api_ok(acre_range_budget_destroy(budget));
    api_ok(acre_stream_destroy(device, stream));
}

API_TEST(range_budget_with_a_new_limit_releases_idle_memory_only) {
    acre_stream stream = stream_make(device);
    acre_range_budget *budget;
    api_ok(acre_range_budget_create(device, 0, &budget));
    acre_range *range = range_in(device, budget, 16);
    assert_int_equal(budget_stats(budget).limit_bytes, 0);
    api_ok(piece_commit(range, 0, 8, stream));
    api_ok(piece_decommit(range, 4, 4, stream));
    api_ok(acre_stream_sync(device, stream));
    api_ok(acre_range_budget_set_limit(budget, 6 * piece));
    assert_int_equal(budget_stats(budget).idle_bytes, 2 * piece);
    api_ok(acre_range_budget_set_limit(budget, 2 * piece));
    assert_int_equal(budget_stats(budget).committed_bytes, 4 * piece);
    assert_int_equal(budget_stats(budget).idle_bytes, 0);
    api_expect(piece_commit(range, 4, 1, stream), ACRE_E_LIMIT);
    assert_non_null(strstr(acre_last_detail(), "acre_range_commit: "));
    api_ok(acre_range_budget_set_limit(budget, 0));
    api_ok(piece_commit(range, 4, 1, stream));
    api_ok(acre_range_destroy(range, stream));
    api_ok(acre_range_budget_destroy(budget));
    api_ok(acre_stream_destroy(device, stream));
}

/* ---- releasing memory ---- */

API_TEST(range_trim_unmaps_what_was_idle_longest) {
    acre_stream stream = stream_make(device);
    acre_range_options limited = {.struct_size = sizeof limited, .limit_bytes = 8 * piece};
    acre_range *range;
    api_ok(acre_range_create(device, 16 * piece, &limited, &range));
    assert_int_equal(range_stats(range).limit_bytes, 8 * piece);
    api_ok(piece_commit(range, 0, 8, stream));
    api_expect(piece_commit(range, 8, 1, stream), ACRE_E_LIMIT);
    api_ok(piece_decommit(range, 6, 1, stream));
    api_ok(piece_decommit(range, 2, 1, stream));
    api_ok(piece_decommit(range, 4, 1, stream));
    api_ok(acre_stream_sync(device, stream));
    api_ok(acre_range_trim(range, 6 * piece));
    struct parts parts = {.most = 8};
    api_ok(
        acre_range_walk(range, parts_add, &parts)); /* 0-1, 2-2 or none, 3-3, 4-4 idle, 5-5, 7-7 */
    uint64_t idle = 0;
    for (size_t i = 0; i < parts.count; i++)
        if (!parts.at[i].is_committed)
            idle = parts.at[i].offset;
    assert_int_equal(range_stats(range).idle_bytes, 1 * piece);
    assert_int_equal(idle, 4 * piece);
    assert_int_equal(range_stats(range).pieces_trimmed, 2);
    api_ok(acre_trim(device));
    assert_int_equal(range_stats(range).idle_bytes, 0);
    assert_int_equal(api_stats(device).chunk_bytes, 5 * piece);
    api_ok(piece_commit(range, 6, 1, stream));
    api_ok(acre_range_destroy(range, stream));
    api_ok(acre_trim(device));
    assert_int_equal(api_stats(device).chunks, 0);
    api_ok(acre_stream_destroy(device, stream));
}

/* A device of 32 MiB. Whoever needs memory gets that of idle pieces: another budget, a vec, a
 * block, a pool. */
TEST(range_idle_memory_serves_everyone_when_the_device_is_full) {
    acre_open_options options = {
        .struct_size = sizeof options, .soft_bytes = 16 * piece, .soft_devices = 1};
    acre_device *device;
    api_ok(acre_open("soft", &options, &device));
    acre_stream stream = stream_make(device);
    acre_range *a = range_in(device, NULL, 64), *b = range_in(device, NULL, 64);
    api_ok(piece_commit(a, 0, 15, stream));
    acre_status status = piece_commit(b, 0, 4, stream);
    assert_int_equal(status, ACRE_E_DEVICE_MEMORY);
    assert_int_equal(range_stats(b).committed_bytes + range_stats(b).idle_bytes, 0);
    api_ok(piece_decommit(a, 0, 14, stream));
    api_ok(piece_commit(b, 0, 12, stream));
    piece_stamp(device, b, 11, 7, stream);
    api_ok(piece_decommit(b, 0, 11, stream));
    acre_vec *vec;
    void *block;
    api_ok(acre_vec_create(device, 1, NULL, &vec));
    api_ok(acre_vec_grow(vec, 10 * piece, stream));
    api_ok(acre_vec_destroy(vec, stream));
    api_ok(piece_commit(b, 0, 11, stream));
    api_ok(piece_decommit(b, 0, 11, stream));
    api_ok(acre_mem_alloc(device, ACRE_KIND_DEVICE, 10 * piece, 0, &block));
    api_ok(acre_mem_free(device, block));
    api_ok(piece_commit(b, 0, 11, stream));
    api_ok(piece_decommit(b, 0, 11, stream));
    api_ok(acre_alloc(device, 10 * piece, stream, &block));
    api_ok(acre_free(block, stream));
    api_ok(piece_commit(b, 0, 11, stream)); /* takes the pool's idle memory */
    piece_check(device, b, 11, 7, stream);
    api_expect(piece_commit(a, 0, 64, stream), ACRE_E_DEVICE_MEMORY); /* larger than the device */
    api_ok(acre_range_destroy(a, stream));
    api_ok(acre_range_destroy(b, stream));
    api_ok(acre_stream_destroy(device, stream));
    api_ok(acre_close(device));
}

/* ---- misuse ---- */

static acre_status misuse_create(acre_device *device, uint64_t bytes, acre_range_options options) {
    acre_range *range = (acre_range *)&options;
    options.struct_size = options.struct_size ? options.struct_size : sizeof options;
    acre_status status = acre_range_create(device, bytes, &options, &range);
    assert_true(status == ACRE_OK || !range);
    return status;
}

API_TEST(range_misuse_is_refused) {
    acre_range *range = range_in(device, NULL, 4), *none = NULL;
    acre_range_budget *budget, *no_budget = NULL;
    acre_range_stats stats = {.struct_size = sizeof stats};
    acre_range *foreign = (acre_range *)device;
    api_ok(acre_range_budget_create(device, 0, &budget));
    api_expect(acre_range_create(NULL, piece, NULL, &none), ACRE_E_NULL);
    api_expect(acre_range_create(device, piece, NULL, NULL), ACRE_E_NULL);
    api_expect(misuse_create(device, 0, (acre_range_options){0}), ACRE_E_INVALID);
    api_expect(misuse_create(device, UINT64_MAX, (acre_range_options){0}), ACRE_E_ADDRESS_SPACE);
    api_expect(misuse_create(device, piece, (acre_range_options){.piece_bytes = piece + 1}),
               ACRE_E_INVALID);
    api_expect(
        misuse_create(device, piece, (acre_range_options){.piece_bytes = UINT64_MAX - piece + 1}),
        ACRE_E_INVALID);
    api_expect(
        misuse_create(device, piece, (acre_range_options){.budget = budget, .limit_bytes = piece}),
        ACRE_E_INVALID);
    api_expect(misuse_create(device, piece, (acre_range_options){.struct_size = 1}),
               ACRE_E_OPTIONS);
    api_expect(
        misuse_create(device, piece, (acre_range_options){.budget = (acre_range_budget *)range}),
        ACRE_E_HANDLE);
    api_expect(acre_range_budget_create(NULL, 0, &no_budget), ACRE_E_NULL);
    api_expect(acre_range_budget_create(device, 0, NULL), ACRE_E_NULL);
    api_expect(acre_range_commit(NULL, 0, piece, NULL), ACRE_E_NULL);
    api_expect(acre_range_commit(foreign, 0, piece, NULL), ACRE_E_HANDLE);
    api_expect(acre_range_decommit(foreign, 0, piece, NULL), ACRE_E_HANDLE);
    api_expect(acre_range_record_use(foreign, NULL), ACRE_E_HANDLE);
    api_expect(acre_range_trim(foreign, 0), ACRE_E_HANDLE);
    api_expect(acre_range_destroy(foreign, NULL), ACRE_E_HANDLE);
    api_expect(acre_range_get_stats(foreign, &stats), ACRE_E_HANDLE);
    api_expect(acre_range_get_stats(range, NULL), ACRE_E_NULL);
    api_expect(acre_range_walk(foreign, parts_add, NULL), ACRE_E_HANDLE);
    api_expect(acre_range_walk(range, NULL, NULL), ACRE_E_NULL);
    api_expect(acre_range_budget_trim((acre_range_budget *)range, 0), ACRE_E_HANDLE);
    api_expect(acre_range_budget_set_limit(NULL, 0), ACRE_E_NULL);
    api_expect(acre_range_budget_get_stats(budget, NULL), ACRE_E_NULL);
    api_expect(acre_range_budget_destroy((acre_range_budget *)range), ACRE_E_HANDLE);
    assert_null(acre_range_data(foreign));
    api_expect(acre_range_commit(range, 1, piece, NULL), ACRE_E_INVALID);
    api_expect(acre_range_commit(range, 0, piece - 1, NULL), ACRE_E_INVALID);
    api_expect(acre_range_commit(range, 0, 5 * piece, NULL), ACRE_E_RANGE);
    api_expect(acre_range_commit(range, 5 * piece, 0, NULL), ACRE_E_RANGE);
    api_expect(acre_range_decommit(range, 3 * piece, UINT64_MAX / piece * piece, NULL),
               ACRE_E_RANGE);
    api_ok(acre_range_commit(range, 4 * piece, 0, NULL));
    api_ok(acre_range_destroy(NULL, NULL));
    api_ok(acre_range_budget_destroy(NULL));
    api_ok(acre_range_budget_destroy(budget));
    api_expect(acre_range_budget_destroy(budget), ACRE_E_HANDLE);
    api_ok(acre_range_destroy(range, NULL));
    api_expect(acre_range_destroy(range, NULL), ACRE_E_HANDLE);
}

TEST(range_of_another_device_is_refused) {
    acre_device *devices[2];
    acre_range_budget *budget;
    acre_range *range;
    api_open_two(devices);
    acre_stream other = stream_make(devices[1]);
    api_ok(acre_range_budget_create(devices[0], 0, &budget));
    acre_range_options options = {.struct_size = sizeof options, .budget = budget};
    api_expect(acre_range_create(devices[1], piece, &options, &range), ACRE_E_HANDLE);
    api_ok(acre_range_create(devices[0], piece, &options, &range));
    api_expect(piece_commit(range, 0, 1, other), ACRE_E_HANDLE);
    api_expect(acre_range_record_use(range, other), ACRE_E_HANDLE);
    api_ok(piece_commit(range, 0, 1, NULL));
    api_expect(piece_decommit(range, 0, 1, other), ACRE_E_HANDLE);
    assert_int_equal(range_stats(range).committed_bytes, piece);
    api_expect(acre_range_destroy(range, other), ACRE_E_HANDLE);
    api_ok(acre_range_destroy(range, NULL));
    api_ok(acre_range_budget_destroy(budget));
    api_ok(acre_stream_destroy(devices[1], other));
    api_ok(acre_close(devices[0]));
    api_ok(acre_close(devices[1]));
}

TEST(range_left_at_close_is_logged_and_freed) {
    for (API_EACH(name)) {
        struct api_heard heard = {.area = "range"};
        acre_device *device = api_open(name);
        acre_range_budget *budget;
        api_ok(acre_range_budget_create(device, 0, &budget));
        acre_range *range = range_in(device, budget, 4);
        api_ok(piece_commit(range, 0, 3, NULL));
        api_ok(piece_decommit(range, 0, 1, NULL));
        acre_log_set(api_listen, &heard, ACRE_LOG_WARN);
        api_ok(acre_close(device));
        acre_log_set(NULL, NULL, ACRE_LOG_WARN);
        assert_int_equal(heard.count, 1);
        assert_non_null(strstr(heard.line, "1 ranges not destroyed (6291456 bytes)"));
        device = api_open(name);
        assert_int_equal(api_stats(device).chunks + api_stats(device).ranges, 0);
        api_ok(acre_close(device));
    }
}

/* ---- threads ---- */

enum { THREADS = 4, PER_THREAD = 8 };

struct worker {
    acre_device *device;
    acre_range *range; /* its own, or shared with its own quarter */
    uint64_t first;
    acre_stream stream;
    uint64_t random;
    pthread_t thread;
};

static void *worker_run(void *user) {
    struct worker *self = user;
    unsigned char values[PER_THREAD] = {0}, page[64];
    for (int i = 0; i < ROUNDS(400, 100); i++) {
        size_t k = random_draw(&self->random, PER_THREAD);
        char *at = piece_at(self->range, self->first + k);
        if (!values[k]) {
            acre_status status = piece_commit(self->range, self->first + k, 1, self->stream);
            if (status == ACRE_E_LIMIT)
                continue;
            thread_must(status == ACRE_OK);
            values[k] = (unsigned char)(1 + random_draw(&self->random, 255));
            thread_must(acre_fill(self->device, at, values[k], 64, self->stream) == ACRE_OK);
        } else {
            thread_must(acre_copy(self->device, page, at, 64, self->stream) == ACRE_OK);
            thread_must(acre_stream_sync(self->device, self->stream) == ACRE_OK);
            for (int b = 0; b < 64; b++)
                thread_must(page[b] == values[k]);
            thread_must(piece_decommit(self->range, self->first + k, 1, self->stream) == ACRE_OK);
            values[k] = 0;
        }
        if (random_draw(&self->random, 50) == 0)
            thread_must(acre_range_trim(self->range, 0) == ACRE_OK);
        if (random_draw(&self->random, 50) == 0)
            thread_must(acre_range_record_use(self->range, self->stream) == ACRE_OK);
    }
    return NULL;
}

/* Half of the threads have a range of their own, the others share one. The budget is too small for
 * all, so pieces move between the ranges all the time. */
API_TEST(range_of_several_threads_never_shares_memory) {
    struct worker workers[THREADS];
    acre_range_budget *budget;
    api_ok(acre_range_budget_create(device, THREADS * PER_THREAD / 2 * piece, &budget));
    acre_range *shared = range_in(device, budget, THREADS * PER_THREAD);
    uint64_t random = random_seed("range_of_several_threads");
    for (uint64_t i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.device = device,
                                     .range = i % 2 ? shared : range_in(device, budget, PER_THREAD),
                                     .first = i % 2 ? i * PER_THREAD : 0,
                                     .stream = stream_make(device),
                                     .random = random + i};
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    assert_int_equal(thread_failed_line, 0);
    acre_range_stats stats = budget_stats(budget);
    assert_true(stats.peak_bytes <= stats.limit_bytes);
    assert_true(stats.pieces_reused > 0 && stats.pieces_moved > 0);
    for (int i = 0; i < THREADS; i++)
        if (i % 2 == 0)
            api_ok(acre_range_destroy(workers[i].range, workers[i].stream));
    for (int i = 0; i < THREADS; i++) {
        if (i % 2)
            api_ok(acre_stream_sync(device, workers[i].stream));
        api_ok(acre_stream_destroy(device, workers[i].stream));
    }
    api_ok(acre_range_destroy(shared, NULL));
    api_ok(acre_range_budget_destroy(budget));
}

/* ---- processes ---- */

static int forked_calls(acre_range *range, acre_range_budget *budget, acre_device *device) {
    acre_range_stats stats = {.struct_size = sizeof stats};
    acre_range *made;
    acre_range_budget *other;
    const acre_status got[] = {acre_range_commit(range, 0, piece, NULL),
                               acre_range_decommit(range, 0, piece, NULL),
                               acre_range_record_use(range, NULL),
                               acre_range_trim(range, 0),
                               acre_range_walk(range, parts_add, NULL),
                               acre_range_get_stats(range, &stats),
                               acre_range_destroy(range, NULL),
                               acre_range_destroy(NULL, NULL),
                               acre_range_create(device, piece, NULL, &made),
                               acre_range_budget_create(device, 0, &other),
                               acre_range_budget_set_limit(budget, 1),
                               acre_range_budget_trim(budget, 0),
                               acre_range_budget_get_stats(budget, &stats),
                               acre_range_budget_destroy(budget),
                               acre_range_budget_destroy(NULL)};
    for (size_t i = 0; i < sizeof got / sizeof got[0]; i++)
        if (got[i] != ACRE_E_FORKED)
            return (int)i + 1;
    return acre_range_data(range) ? 100 : 0;
}

API_TEST(range_in_a_forked_child_is_refused_and_the_parent_goes_on) {
    acre_range_budget *budget;
    api_ok(acre_range_budget_create(device, 0, &budget));
    acre_range *range = range_in(device, budget, 4);
    api_ok(piece_commit(range, 1, 1, NULL));
    piece_stamp(device, range, 1, 77, NULL);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        leave(forked_calls(range, budget, device));
    int state = -1;
    assert_int_equal(waitpid(pid, &state, 0), pid);
    assert_true(WIFEXITED(state));
    assert_int_equal(WEXITSTATUS(state), 0);
    piece_check(device, range, 1, 77, NULL);
    api_ok(piece_commit(range, 2, 1, NULL));
    api_ok(acre_range_destroy(range, NULL));
    api_ok(acre_range_budget_destroy(budget));
}

TEST(range_on_a_device_without_mapping_is_unsupported) {
    api_started_ok("no_vmm", "ACRE_VMM=off");
}

static int no_vmm(void) {
    acre_device *device;
    acre_range *range;
    api_must(acre_open("soft", NULL, &device) == ACRE_OK);
    api_must(acre_range_create(device, piece, NULL, &range) == ACRE_E_UNSUPPORTED && !range);
    api_must(acre_close(device) == ACRE_OK);
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "no_vmm") == 0)
        return no_vmm();
    return tests_run("sparse");
}
