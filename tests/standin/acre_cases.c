/* A program that uses libacre, for tests of the tool, of logs and of traces: opens the device named
 * by its first argument and runs the case named by the second. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <acre.h>

static void need(acre_status status, const char *what) {
    if (status != ACRE_OK) {
        printf("%s: %s\n", what, acre_last_detail());
        exit(9);
    }
}

static void leak_blocks(acre_device *device) {
    void *p;
    for (int i = 0; i < 3; i++)
        need(acre_alloc(device, 1000, NULL, &p), "acre_alloc");
    need(acre_mem_alloc(device, ACRE_KIND_DEVICE, 4096, 0, &p), "acre_mem_alloc");
}

static void leak_objects(acre_device *device) {
    acre_vec *vec;
    acre_pool *pool;
    void *p;
    need(acre_vec_create(device, 1, NULL, &vec), "acre_vec_create");
    need(acre_pool_create(device, NULL, &pool), "acre_pool_create");
    need(acre_pool_alloc(pool, 500, 0, NULL, &p), "acre_pool_alloc");
    need(acre_pool_destroy(pool, NULL, NULL), "acre_pool_destroy");
}

static void use_after_free(acre_device *device) {
    char host[100];
    void *p;
    need(acre_alloc(device, sizeof host, NULL, &p), "acre_alloc");
    need(acre_free(p, NULL), "acre_free");
    if (acre_copy_sync(device, host, p, sizeof host) != ACRE_E_POINTER)
        exit(9);
}

/* Two streams use a block without order. The device is lost then: later calls fail. */
static void race_streams(acre_device *device) {
    enum { BYTES = 4096 };
    acre_stream first, second;
    char *p;
    void *q;
    need(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &first), "acre_stream_create");
    need(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &second), "acre_stream_create");
    need(acre_alloc(device, BYTES, first, &q), "acre_alloc");
    p = q;
    need(acre_fill(device, p, 1, BYTES, first), "acre_fill");
    (void)acre_fill(device, p, 2, BYTES, second);
    (void)acre_device_sync(device);
    (void)acre_free(p, first);
    (void)acre_stream_destroy(device, first);
    (void)acre_stream_destroy(device, second);
    (void)acre_close(device);
}

/* Closes every descriptor, as a daemon does, and opens its own files under their numbers. */
static void replace_descriptors(void) {
    enum { MOST = 64 };
    for (int fd = STDERR_FILENO + 1; fd < MOST; fd++)
        close(fd);
    for (int fd = 0; fd < MOST;) {
        fd = open("mine", O_RDWR | O_APPEND | O_CREAT, 0644);
        if (fd < 0)
            exit(9);
    }
}

static void *volatile last; /* keeps calls from becoming jumps */

static __attribute__((noinline)) void alloc_left(acre_device *device, unsigned path, int depth);
static __attribute__((noinline)) void alloc_right(acre_device *device, unsigned path, int depth) {
    void *p = NULL;
    if (depth)
        (path & 1 ? alloc_left : alloc_right)(device, path / 2, depth - 1);
    else
        need(acre_alloc(device, 1000, NULL, &p), "acre_alloc");
    if (p)
        need(acre_free(p, NULL), "acre_free");
    last = p;
}

static void alloc_left(acre_device *device, unsigned path, int depth) {
    alloc_right(device, path, depth);
    last = NULL;
}

/* Calls that acre serves by other public functions: each is refused, and prints its detail. */
static void wrong_calls(acre_device *device) {
    static char host[100];
    acre_stream none = (acre_stream)(void *)host;
    acre_pool *pool;
    acre_plan *plan;
    acre_vec *vec;
    acre_share *share;
    void *p, *blocks[2];
    need(acre_pool_create(device, NULL, &pool), "acre_pool_create");
    need(acre_plan_create(device, NULL, &plan), "acre_plan_create");
    need(acre_vec_create(device, 1, NULL, &vec), "acre_vec_create");
#define REFUSED(call) ((call) ? (void)puts(acre_last_detail()) : exit(9))
    REFUSED(acre_alloc(NULL, 10, NULL, &p));
    REFUSED(acre_alloc(device, 10, none, &p));
    REFUSED(acre_pool_alloc_many(pool, 100, 2, none, blocks));
    REFUSED(acre_pool_realloc(pool, NULL, 10, none, &p));
    REFUSED(acre_pool_realloc(pool, host, 0, NULL, &p));
    REFUSED(acre_plan_want(plan, 7, 10, 0, &p));
    REFUSED(acre_plan_want_for(plan, 0, 10, 3, 0, 1, &p));
    REFUSED(acre_vec_append(vec, host, 10, none));
    REFUSED(acre_mem_realloc(device, host, 0, NULL, &p));
    REFUSED(acre_share_vec((acre_vec *)(void *)host, "name", NULL, &share));
    need(acre_vec_destroy(vec, NULL), "acre_vec_destroy");
    REFUSED(acre_vec_destroy(vec, NULL));
    need(acre_plan_destroy(plan), "acre_plan_destroy");
    need(acre_pool_destroy(pool, NULL, NULL), "acre_pool_destroy");
    REFUSED(acre_pool_trim(pool, 0));
}

int main(int argc, char **argv) {
    acre_device *device;
    void *p;
    if (argc < 3)
        return 8;
    need(acre_open(argv[1], NULL, &device), "acre_open");
    if (strcmp(argv[2], "clean") == 0 || strcmp(argv[2], "open") == 0 ||
        strcmp(argv[2], "abort") == 0) { /* the pool keeps the memory */
        need(acre_alloc(device, 1000, NULL, &p), "acre_alloc");
        need(acre_free(p, NULL), "acre_free");
    } else if (strcmp(argv[2], "leak") == 0 || strcmp(argv[2], "open-leak") == 0) {
        leak_blocks(device);
    } else if (strcmp(argv[2], "objects") == 0) {
        leak_objects(device);
    } else if (strcmp(argv[2], "use-after-free") == 0) {
        use_after_free(device);
    } else if (strcmp(argv[2], "race") == 0) {
        race_streams(device);
        return 0;
    } else if (strcmp(argv[2], "wrong-calls") == 0) {
        wrong_calls(device);
    } else if (strcmp(argv[2], "closed-files") == 0) {
        alloc_right(device, 0, 0);
        replace_descriptors();
        for (int i = 0; i < 20000; i++) /* the trace would grow */
            alloc_right(device, 0, 0);
        leak_blocks(device);
    } else if (strcmp(argv[2], "many-stacks") == 0) {
        for (unsigned path = 0; path < 1 << 14; path++)
            alloc_right(device, path, 14);
        leak_blocks(device);
    }
    if (strcmp(argv[2], "abort") == 0)
        abort();
    if (strncmp(argv[2], "open", 4) != 0)
        need(acre_close(device), "acre_close");
    return 0;
}
