/* Four ways to get memory for work that needs another size in each round.
 *
 *   one block     the largest size is known: allocate it once and reuse it
 *   pool          allocate and free in each round; the pool reuses the memory
 *   two streams   one stream fills a block, another reads and frees it: the first stream does not
 *                 write to it again before the second has read it
 *   vec           one array that grows in place when needed
 *
 * Each round fills its memory with its own number, and the first and last byte are read back in
 * stream order. Many rounds are in flight, so a wrong order would show. */
#include <acre.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
enum { ROUNDS = 192, LOOK = 24 /* rounds between two waits for the reader */ };

static acre_device *device;
static acre_stream fills, reads; /* the two streams; only one way uses the second */
static acre_event handover;
static uint8_t *seen; /* pinned: the first and the last byte of each round */
static int wrong;

/* The results of a way. */
struct row {
    void *addresses[ROUNDS]; /* different addresses that it got */
    int address_count;
    uint64_t held_bytes;
    double us[ROUNDS]; /* time of the allocs and frees of each round */
};

static void need(acre_status status, const char *what) {
    if (status != ACRE_OK) {
        fprintf(stderr, "%s: %s (%s)\n", what, acre_status_text(status), acre_last_detail());
        exit(2);
    }
}

static void expect(int is_so, const char *what) {
    if (!is_so) {
        printf("THIS IS WRONG: %s\n", what);
        wrong++;
    }
}

static double now_us(void) {
    struct timespec now;
    (void)timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int less(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static size_t bytes_of(int round) {
    static const size_t sizes[] = {256 * KIB, 64 * KIB, 1 * MIB, 700 * KIB, 2 * MIB, 100};
    return sizes[(size_t)round % (sizeof sizes / sizeof sizes[0])];
}

static void note(struct row *row, void *address) {
    int i = 0;
    while (i < row->address_count && row->addresses[i] != address) {
        i++;
    }
    if (i == row->address_count) {
        row->addresses[row->address_count++] = address;
    }
}

/* ---- the work ---- */

static void fill(void *memory, int round) {
    need(acre_fill(device, memory, (uint8_t)(round + 1), bytes_of(round), fills), "acre_fill");
}

static void read_back(const void *memory, int round, acre_stream stream) {
    const uint8_t *bytes = memory;
    need(acre_copy(device, &seen[2 * round], bytes, 1, stream), "acre_copy");
    need(acre_copy(device, &seen[2 * round + 1], bytes + bytes_of(round) - 1, 1, stream),
         "acre_copy");
}

/* ---- the ways ---- */

static void one_block(struct row *row) {
    void *memory;
    double begin = now_us();
    need(acre_mem_alloc(device, ACRE_KIND_DEVICE, 2 * MIB, 0, &memory), "acre_mem_alloc");
    row->us[0] = now_us() - begin;
    row->held_bytes = 2 * MIB;
    for (int round = 0; round < ROUNDS; round++) {
        note(row, memory);
        fill(memory, round);
        read_back(memory, round, fills);
    }
    begin = now_us();
    need(acre_mem_free(device, memory), "acre_mem_free"); /* waits for all work */
    row->us[ROUNDS - 1] = now_us() - begin;
    expect(row->address_count == 1, "one block has one address");
}

static acre_pool *pool_make(void) {
    acre_pool *pool;
    need(acre_pool_create(device, NULL, &pool), "acre_pool_create");
    return pool;
}

static void pool_end(acre_pool *pool, struct row *row) {
    acre_pool_stats stats = {.struct_size = sizeof stats};
    need(acre_pool_get_stats(pool, &stats), "acre_pool_get_stats");
    row->held_bytes = stats.held_bytes;
    expect(stats.live_blocks == 0, "every block was freed");
    need(acre_pool_destroy(pool, NULL, NULL), "acre_pool_destroy");
}

static void pool_reused(struct row *row) {
    acre_pool *pool = pool_make();
    for (int round = 0; round < ROUNDS; round++) {
        void *memory;
        double begin = now_us();
        need(acre_pool_alloc(pool, bytes_of(round), 0, fills, &memory), "acre_pool_alloc");
        row->us[round] += now_us() - begin;
        note(row, memory);
        fill(memory, round);
        read_back(memory, round, fills);
        begin = now_us();
        /* The fill and the copies may not have run yet: later work on the stream follows them. */
        need(acre_pool_free(pool, memory, fills), "acre_pool_free");
        row->us[round] += now_us() - begin;
    }
    expect(row->address_count <= ROUNDS / 4, "a pool reuses memory");
    pool_end(pool, row);
}

static void pool_two_streams(struct row *row) {
    acre_pool *pool = pool_make();
    for (int round = 0; round < ROUNDS; round++) {
        void *memory;
        double begin = now_us();
        need(acre_pool_alloc(pool, bytes_of(round), 0, fills, &memory), "acre_pool_alloc");
        row->us[round] += now_us() - begin;
        note(row, memory);
        fill(memory, round);
        /* The block belongs to `fills`; `reads` may use it after it has waited. */
        need(acre_event_record(device, handover, fills), "acre_event_record");
        need(acre_stream_wait(device, reads, handover), "acre_stream_wait");
        read_back(memory, round, reads);
        begin = now_us();
        need(acre_pool_free(pool, memory, reads), "acre_pool_free");
        row->us[round] += now_us() - begin;
        if (round % LOOK == LOOK - 1) {
            need(acre_stream_sync(device, reads), "acre_stream_sync");
        }
    }
    expect(row->address_count < ROUNDS, "the pool reuses memory that the readers are done with");
    pool_end(pool, row);
}

static void vec_resized(struct row *row) {
    acre_vec *vec;
    acre_vec_info info = {.struct_size = sizeof info};
    need(acre_vec_create(device, 1, NULL, &vec), "acre_vec_create");
    for (int round = 0; round < ROUNDS; round++) {
        double begin = now_us();
        if (bytes_of(round) > acre_vec_size(vec)) {
            need(acre_vec_resize(vec, bytes_of(round), fills), "acre_vec_resize");
        }
        row->us[round] += now_us() - begin;
        note(row, acre_vec_data(vec));
        fill(acre_vec_data(vec), round);
        read_back(acre_vec_data(vec), round, fills);
    }
    need(acre_vec_get_info(vec, &info), "acre_vec_get_info");
    row->held_bytes = info.mapped_bytes;
    if (info.strategy == ACRE_VEC_VMM) {
        expect(row->address_count == 1, "a vec keeps its address");
    }
    need(acre_vec_destroy(vec, fills), "acre_vec_destroy");
}

static void run(const char *name, void (*way)(struct row *)) {
    struct row row = {.address_count = 0};
    way(&row);
    need(acre_stream_sync(device, fills), "acre_stream_sync");
    need(acre_stream_sync(device, reads), "acre_stream_sync");
    for (int round = 0; round < ROUNDS; round++) {
        expect(seen[2 * round] == round + 1 && seen[2 * round + 1] == round + 1,
               "a round read the numbers of another round");
        seen[2 * round] = seen[2 * round + 1] = 0;
    }
    qsort(row.us, ROUNDS, sizeof row.us[0], less);
    printf("%-12s %9d %9d %9.1f %9.2f %9.2f\n", name, row.address_count, ROUNDS - row.address_count,
           (double)row.held_bytes / (double)MIB, row.us[ROUNDS / 2], row.us[ROUNDS - 1]);
}

int main(void) {
    acre_device_info info = {.struct_size = sizeof info};
    void *pinned;
    need(acre_open("auto", NULL, &device), "acre_open");
    need(acre_device_get_info(device, &info), "acre_device_get_info");
    need(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &fills), "acre_stream_create");
    need(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &reads), "acre_stream_create");
    need(acre_event_create(device, ACRE_EVENT_DEFAULT, &handover), "acre_event_create");
    need(acre_mem_alloc(device, ACRE_KIND_PINNED, 2 * (size_t)ROUNDS, 0, &pinned),
         "acre_mem_alloc");
    seen = pinned;

    printf("%s, %d rounds of 100 B to 2 MiB; time to allocate and free in us\n"
           "%-12s %9s %9s %9s %9s %9s\n",
           info.name, ROUNDS, "way", "addresses", "reused", "MiB held", "median", "longest");
    run("one block", one_block);
    run("pool", pool_reused);
    run("two streams", pool_two_streams);
    run("vec", vec_resized);

    need(acre_mem_free(device, pinned), "acre_mem_free");
    need(acre_event_destroy(device, handover), "acre_event_destroy");
    need(acre_stream_destroy(device, reads), "acre_stream_destroy");
    need(acre_stream_destroy(device, fills), "acre_stream_destroy");
    need(acre_close(device), "acre_close");
    return wrong != 0;
}
