/* ACRE_SANITIZE: every live block of a pool is a region of NVTX with the bytes as requested, and no
 * other memory is. nvtx_injection.c is the tool behind NVTX here, in place of compute-sanitizer. */
#include <dlfcn.h>
#include <pthread.h>

#include "api_pool.h"

enum { BLOCKS = 200, THREADS = 3 };

static unsigned (*tool_heaps)(void), (*tool_regions)(void), (*tool_wrong)(void);
static size_t (*tool_bytes)(const void *);

static void find(void *library, const char *name, void *function_out) {
    void *found = dlsym(library, name);
    api_must(found != NULL);
    memcpy(function_out, &found, sizeof found);
}

static void find_tool(void) {
    void *library = dlopen(getenv("NVTX_INJECTION64_PATH"), RTLD_NOW | RTLD_NOLOAD);
    api_must(library != NULL); /* NVTX has loaded it */
    find(library, "tool_heaps", &tool_heaps);
    find(library, "tool_regions", &tool_regions);
    find(library, "tool_wrong", &tool_wrong);
    find(library, "tool_bytes", &tool_bytes);
}

static void *churn(void *user) {
    acre_pool *pool = user;
    void *blocks[8] = {0};
    for (int i = 0; i < 2000; i++) {
        void **block = &blocks[i % 8];
        size_t bytes = (size_t)(i * 37 % 5000) + 1;
        if (*block && acre_pool_free(pool, *block, NULL))
            return pool;
        if (acre_pool_alloc(pool, bytes, 0, NULL, block) || tool_bytes(*block) != bytes)
            return pool;
    }
    for (int i = 0; i < 8; i++)
        if (acre_pool_free(pool, blocks[i], NULL))
            return pool;
    return NULL;
}

static void use_threads(acre_pool *pool) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        api_must(pthread_create(&threads[i], NULL, churn, pool) == 0);
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        api_must(!failed);
    }
}

static int sanitized(void) {
    acre_device *device;
    acre_pool *pool;
    void *blocks[BLOCKS], *moved;
    api_must(acre_open("soft", NULL, &device) == ACRE_OK);
    api_must(acre_pool_create(device, NULL, &pool) == ACRE_OK);
    for (int i = 0; i < BLOCKS; i++) {
        size_t bytes = (size_t)(i * i) * 100 + 1;
        api_must(acre_pool_alloc(pool, bytes, 0, NULL, &blocks[i]) == ACRE_OK);
        if (i == 0)
            find_tool();
        api_must(tool_bytes(blocks[i]) == bytes);
    }
    api_must(tool_regions() == BLOCKS && tool_heaps() > 0);
    api_must(acre_pool_realloc(pool, blocks[7], 5001, NULL, &moved) == ACRE_OK);
    api_must(tool_bytes(moved) == 5001 && (moved == blocks[7] || !tool_bytes(blocks[7])));
    blocks[7] = moved;
    for (int i = 0; i < BLOCKS; i++) {
        api_must(acre_pool_free(pool, blocks[i], NULL) == ACRE_OK);
        api_must(!tool_bytes(blocks[i]));
    }
    api_must(acre_pool_free(pool, blocks[3], NULL) != ACRE_OK); /* a double free changes nothing */
    api_must(tool_regions() == 0);
    use_threads(pool);
    api_must(tool_regions() == 0 && tool_wrong() == 0);
    api_must(acre_pool_alloc(pool, 1000, 0, NULL, &moved) == ACRE_OK);
    api_must(acre_pool_destroy(pool, NULL, NULL) == ACRE_OK);
    api_must(tool_heaps() == 0 && tool_regions() == 0 && tool_wrong() == 0);
    api_must(acre_close(device) == ACRE_OK);
    return 0;
}

/* A build without NVTX says so. */
static int refused(void) {
    acre_device *device;
    api_must(acre_open("soft", NULL, &device) == ACRE_E_CONFIG);
    api_must(strstr(acre_last_detail(), "built without NVTX") != NULL);
    return 0;
}

TEST(regions_are_the_live_blocks) {
    char tool[1024];
    snprintf(tool, sizeof tool, "NVTX_INJECTION64_PATH=%s/tests/standin/libnvtx_injection.so",
             getenv("ACRE_BUILD"));
    if (access(strchr(tool, '/'), R_OK) == 0) /* the build has NVTX */
        api_started_ok("sanitized", "ACRE_SANITIZE=1", tool);
    else
        api_started_ok("refused", "ACRE_SANITIZE=1");
}

int main(int argc, char **argv) {
    if (argc > 1)
        return strcmp(argv[1], "sanitized") == 0 ? sanitized() : refused();
    return tests_run("regions");
}
