/* Two processes use one array. The first shares a vec. The second, which is this program started
 * again, imports it and finds the same numbers, without a copy. Then the first process makes the
 * vec longer, and the second sees that after a refresh. */
#include <acre.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { COUNT = 1 << 20, CHILD_IN = 0, CHILD_OUT = 3 };

/* Prints the error and returns the exit code. */
static int failed(const char *who, acre_status status) {
    fprintf(stderr, "%s: %s (%s)\n", who, acre_status_text(status), acre_last_detail());
    return 2;
}

/* ---- the importer ---- */

/* Checks that the import has the numbers 0 .. count - 1. */
static int look(acre_device *device, acre_import *import, size_t count) {
    acre_import_info info = {.struct_size = sizeof info};
    acre_status status = acre_import_get_info(import, &info);
    if (status != ACRE_OK)
        return failed("importer", status);
    if (info.bytes != count * sizeof(uint32_t)) {
        fprintf(stderr, "importer: %llu bytes instead of %zu numbers\n",
                (unsigned long long)info.bytes, count);
        return 1;
    }
    uint32_t *numbers = malloc(info.bytes);
    if (!numbers)
        return 2;
    status = acre_copy_sync(device, numbers, info.data, info.bytes);
    if (status != ACRE_OK) {
        free(numbers);
        return failed("importer", status);
    }
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++)
        wrong += numbers[i] != i;
    free(numbers);
    printf("importer: %zu numbers, %zu of them wrong; %llu MiB newly mapped\n", count, wrong,
           (unsigned long long)(info.refreshed_bytes >> 20));
    fflush(stdout);
    return wrong ? 1 : 0;
}

static int importer(const char *path) {
    acre_device *device;
    acre_import *import;
    acre_status status;
    char word = 'r';
    if ((status = acre_open("auto", NULL, &device)) != ACRE_OK ||
        (status = acre_import_open(device, path, NULL, &import)) != ACRE_OK)
        return failed("importer", status);
    int code = look(device, import, COUNT);
    if (code)
        return code;

    /* The owner makes the vec longer now, and notifies us. */
    if (write(CHILD_OUT, &word, 1) != 1 || read(CHILD_IN, &word, 1) != 1)
        return 2;
    if ((status = acre_import_refresh(import, NULL)) != ACRE_OK)
        return failed("importer", status);
    code = look(device, import, 20 * COUNT);
    if ((status = acre_import_close(import, NULL)) != ACRE_OK ||
        (status = acre_close(device)) != ACRE_OK)
        return failed("importer", status);
    return code;
}

/* ---- the owner ---- */

/* Appends numbers until there are `count`. */
static acre_status lengthen(acre_vec *vec, size_t count) {
    static uint32_t numbers[COUNT];
    acre_status status = ACRE_OK;
    for (size_t at = acre_vec_size(vec); at < count && status == ACRE_OK; at += COUNT) {
        for (size_t i = 0; i < COUNT; i++)
            numbers[i] = (uint32_t)(at + i);
        status = acre_vec_append(vec, numbers, COUNT, NULL);
    }
    return status;
}

/* Starts this program again; to_child and from_child are our ends of two pipes. */
static pid_t start(char *path, int *to_child, int *from_child) {
    int in[2], out[2];
    pid_t child = -1;
    char mode[] = "import";
    char *arguments[] = {mode, mode, path, NULL};
    posix_spawn_file_actions_t actions;
    if (pipe(in) != 0 || pipe(out) != 0 || posix_spawn_file_actions_init(&actions) != 0)
        return -1;
    posix_spawn_file_actions_adddup2(&actions, in[0], CHILD_IN);
    posix_spawn_file_actions_adddup2(&actions, out[1], CHILD_OUT);
    posix_spawn_file_actions_addclose(&actions, in[1]);
    if (posix_spawn(&child, "/proc/self/exe", &actions, NULL, arguments, environ) != 0)
        child = -1;
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    *to_child = in[1];
    *from_child = out[0];
    return child;
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "import") == 0)
        return importer(argv[2]);

    acre_device *device;
    acre_vec *vec;
    acre_share *share;
    acre_status status;
    acre_vec_options options = {.struct_size = sizeof options, .flags = ACRE_VEC_SHAREABLE};
    char path[64]; /* a name that begins with '@' needs no file */
    snprintf(path, sizeof path, "@acre-share-two-processes-%ld", (long)getpid());
    if ((status = acre_open("auto", NULL, &device)) != ACRE_OK ||
        (status = acre_vec_create(device, sizeof(uint32_t), &options, &vec)) != ACRE_OK ||
        (status = lengthen(vec, COUNT)) != ACRE_OK ||
        (status = acre_device_sync(device)) != ACRE_OK ||
        (status = acre_share_vec(vec, path, NULL, &share)) != ACRE_OK)
        return failed("owner", status);
    printf("owner: %zu numbers shared as %s\n", acre_vec_size(vec), path);
    fflush(stdout);

    int to_child, from_child, state = -1;
    char word;
    pid_t child = start(path, &to_child, &from_child);
    if (child < 0 || read(from_child, &word, 1) != 1) {
        fputs("owner: the importer does not answer\n", stderr);
        return 2;
    }
    if ((status = lengthen(vec, 20 * COUNT)) != ACRE_OK ||
        (status = acre_device_sync(device)) != ACRE_OK)
        return failed("owner", status);
    printf("owner: now %zu numbers\n", acre_vec_size(vec));
    fflush(stdout);
    if (write(to_child, &word, 1) != 1 || waitpid(child, &state, 0) != child || state != 0) {
        fputs("owner: the importer found other numbers\n", stderr);
        return 1;
    }
    if ((status = acre_share_close(share)) != ACRE_OK ||
        (status = acre_vec_destroy(vec, NULL)) != ACRE_OK ||
        (status = acre_close(device)) != ACRE_OK)
        return failed("owner", status);
    return 0;
}
