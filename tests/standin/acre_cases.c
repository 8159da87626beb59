/* A program that uses libacre, for the tests of `acre run`: opens the device named by its first
 * argument and runs the case named by the second. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

int main(int argc, char **argv) {
    acre_device *device;
    void *p;
    if (argc < 3)
        return 8;
    need(acre_open(argv[1], NULL, &device), "acre_open");
    if (strcmp(argv[2], "clean") == 0) {
        need(acre_alloc(device, 1000, NULL, &p), "acre_alloc");
        need(acre_free(p, NULL), "acre_free");
    } else if (strcmp(argv[2], "leak") == 0) {
        leak_blocks(device);
    } else if (strcmp(argv[2], "objects") == 0) {
        leak_objects(device);
    }
    if (strcmp(argv[2], "open") != 0)
        need(acre_close(device), "acre_close");
    return 0;
}
