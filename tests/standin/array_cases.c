/* A program for tests/cli/test_cli_limit.sh, linked with the small driver of array_driver.c: runs
 * the case named by its argument under a limit of 64 MiB. Exit status 9 after a failed check. */
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef unsigned long long address_t;
struct descriptor {
    size_t width, height;
    unsigned format, channels;
};

extern _Atomic int driver_unrelaxed_queries, driver_primary_contexts;
extern int cuInit(unsigned flags);
extern int cuCtxSetCurrent(void *ctx);
extern int cuCtxCreate_v2(void **ctx, unsigned flags, int dev);
extern int cuDevicePrimaryCtxRetain(void **ctx, int dev);
extern int cuMemAlloc_v2(address_t *p, size_t bytes);
extern int cuMemGetInfo_v2(size_t *free_out, size_t *total);
extern int cuMemAllocAsync(address_t *p, size_t bytes, void *stream);
extern int cuMemFreeAsync(address_t p, void *stream);
extern int cuArrayCreate_v2(void **handle, const void *descriptor);
extern int cuArrayDestroy(void *handle);
extern int cuGraphLaunch(void *exec, void *stream);
extern int cuDeviceGraphMemTrim(int dev);

enum { BYTES = 1, OUT_OF_MEMORY = 2, HOLDS = 30, WORKERS = 3 };
static const size_t MIB = (size_t)1 << 20;
static void *context;

static void need(int is_ok, const char *what, int line) {
    if (!is_ok) {
        printf("line %d: %s\n", line, what);
        exit(9);
    }
}
#define NEED(what) need((what), #what, __LINE__)

static size_t left_mib(void) {
    size_t left = 0, total = 0;
    NEED(cuMemGetInfo_v2(&left, &total) == 0 && total == 64 * MIB);
    return left / MIB;
}

static int create(void **handle, size_t mib) {
    struct descriptor descriptor = {mib * MIB, 1, BYTES, 1};
    return cuArrayCreate_v2(handle, &descriptor);
}

static void enter(void) {
    NEED(cuInit(0) == 0 && cuDevicePrimaryCtxRetain(&context, 0) == 0);
    NEED(cuCtxSetCurrent(context) == 0);
}

/* A creation that fails is not charged, and gives nothing back. */
static void do_fails(void) {
    address_t p;
    void *array;
    enter();
    NEED(cuMemAlloc_v2(&p, 60 * MIB) == 0 && left_mib() == 4);
    NEED(create(&array, 8) == OUT_OF_MEMORY && left_mib() == 4);
    NEED(cuCtxSetCurrent(NULL) == 0 && create(&array, 60) > OUT_OF_MEMORY);
    NEED(cuCtxSetCurrent(context) == 0 && left_mib() == 4);
}

static void do_plain(void) {
    void *one, *two;
    enter();
    NEED(create(&one, 40) == 0 && left_mib() == 24);
    NEED(create(&two, 25) == OUT_OF_MEMORY && create(&two, 24) == 0 && left_mib() == 0);
    NEED(cuArrayDestroy(one) == 0 && left_mib() == 40);
    NEED(cuArrayDestroy(two) == 0 && left_mib() == 64);
}

/* Arrays in a context of the program's own create no primary one. */
static void do_context(void) {
    void *array;
    NEED(cuInit(0) == 0 && cuCtxCreate_v2(&context, 0, 0) == 0);
    int before = driver_primary_contexts;
    for (int i = 0; i < 10; i++)
        NEED(create(&array, 1) == 0);
    NEED(driver_primary_contexts == before && left_mib() == 54);
}

/* ---- handles that the driver uses again ---- */

static _Atomic int is_over;

static void *churn(void *nothing) {
    void *array;
    NEED(cuCtxSetCurrent(context) == 0);
    while (!atomic_load(&is_over)) {
        if (create(&array, 1) == 0)
            NEED(cuArrayDestroy(array) == 0);
    }
    return nothing;
}

static void do_race(void) {
    const struct timespec moment = {.tv_nsec = 2000000};
    pthread_t threads[WORKERS];
    void *array;
    enter();
    for (int i = 0; i < WORKERS; i++)
        NEED(pthread_create(&threads[i], NULL, churn, NULL) == 0);
    for (int i = 0; i < HOLDS; i++) {
        NEED(create(&array, 1) == 0);
        nanosleep(&moment, NULL);
    }
    atomic_store(&is_over, 1);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    NEED(left_mib() == 64 - HOLDS);
}

/* ---- graphs and pools ---- */

static void do_graphs(void) {
    address_t p;
    enter();
    NEED(cuGraphLaunch((void *)(uintptr_t)(60 * MIB), NULL) == 0 && left_mib() == 4);
    NEED(cuMemAlloc_v2(&p, 30 * MIB) == OUT_OF_MEMORY);
    NEED(cuDeviceGraphMemTrim(0) == 0 && left_mib() == 64);
    NEED(cuMemAlloc_v2(&p, 30 * MIB) == 0);
    /* More than the limit: nothing else is granted. */
    NEED(cuGraphLaunch((void *)(uintptr_t)(60 * MIB), NULL) == 0 && left_mib() == 0);
}

/* Queries of a pool may invalidate captures of other threads, unless the mode is relaxed. */
static void do_pool(void) {
    address_t p;
    enter();
    NEED(cuMemAllocAsync(&p, MIB, NULL) == 0 && left_mib() == 32);
    NEED(cuMemFreeAsync(p, NULL) == 0);
    NEED(driver_unrelaxed_queries == 0);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"fails", do_fails}, {"plain", do_plain},   {"context", do_context},
                 {"race", do_race},   {"graphs", do_graphs}, {"pool", do_pool}};
    for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof cases[0]; i++) {
        if (strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
            printf("%s: ok\n", argv[1]);
            return 0;
        }
    }
    return 64;
}
