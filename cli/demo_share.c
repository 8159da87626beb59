/* The part of `acre demo` that shares an array with another process: this tool, started again with
 * an undocumented option, which finds the same numbers without a copy of the array. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "demo.h"

extern char **environ;

enum { SHARED_NUMBERS = 1 << 20 };

/* ---- the other process ----------------------------------------------------------------------- */

int demo_share_program(const char *device_name, const char *path) {
    acre_device *device;
    acre_import *import;
    acre_import_info info = {.struct_size = sizeof info};
    static uint32_t numbers[SHARED_NUMBERS];
    if (acre_open(device_name, NULL, &device) != ACRE_OK ||
        acre_import_open(device, path, NULL, &import) != ACRE_OK ||
        acre_import_get_info(import, &info) != ACRE_OK || info.bytes != sizeof numbers ||
        acre_copy_sync(device, numbers, info.data, sizeof numbers) != ACRE_OK) {
        return CLI_CANNOT;
    }
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < SHARED_NUMBERS; i++) {
        wrong += numbers[i] != 3 * i;
    }
    if (acre_import_close(import, NULL) != ACRE_OK || acre_close(device) != ACRE_OK) {
        return CLI_CANNOT;
    }
    return wrong ? CLI_FINDING : CLI_OK;
}

/* ---- this process ---------------------------------------------------------------------------- */

/* Starts the other process and waits for it. Returns its exit code. */
static int shared_look(const char *device_name, const char *path) {
    char *arguments[] = {(char *)(uintptr_t) "acre",
                         (char *)(uintptr_t) "demo",
                         (char *)(uintptr_t)DEMO_SHARE_PROGRAM,
                         (char *)(uintptr_t)device_name,
                         (char *)(uintptr_t)path,
                         NULL};
    int status = 0;
    pid_t pid;
    if (posix_spawn(&pid, "/proc/self/exe", NULL, NULL, arguments, environ) != 0) {
        return CLI_CANNOT;
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : CLI_CANNOT;
}

#define SHARED_TRY(doing, what, call)                                                              \
    do {                                                                                           \
        *(doing) = (what);                                                                         \
        acre_status shared_status = (call);                                                        \
        if (shared_status != ACRE_OK) {                                                            \
            return shared_status;                                                                  \
        }                                                                                          \
    } while (0)

acre_status demo_share(acre_device *device, const char *device_name, struct demo_part *part,
                       const char **doing) {
    acre_vec_options options = {.struct_size = sizeof options, .flags = ACRE_VEC_SHAREABLE};
    acre_vec *vec;
    acre_share *share;
    char path[64]; /* a name that begins with '@' needs no file */
    uint64_t begin = cli_now_ns();
    *part = (struct demo_part){.name = "sharing", .ok = true};
    acre_status status = acre_vec_create(device, sizeof(uint32_t), &options, &vec);
    if (status == ACRE_E_UNSUPPORTED) {
        snprintf(part->text, sizeof part->text, "skipped: %.150s", cli_detail());
        return ACRE_OK;
    }
    SHARED_TRY(doing, "create an array on", status);
    uint32_t *numbers = cli_alloc(SHARED_NUMBERS * sizeof *numbers);
    for (uint32_t i = 0; i < SHARED_NUMBERS; i++) {
        numbers[i] = 3 * i;
    }
    status = acre_vec_append(vec, numbers, SHARED_NUMBERS, NULL);
    SHARED_TRY(doing, "fill an array on", status ? status : acre_device_sync(device));
    free(numbers);
    snprintf(path, sizeof path, "@acre-demo-%ld", (long)getpid());
    SHARED_TRY(doing, "share an array of", acre_share_vec(vec, path, NULL, &share));
    int code = shared_look(device_name, path);
    part->ok = code == CLI_OK;
    snprintf(part->text, sizeof part->text, "%s",
             code == CLI_OK ? "another process mapped an array of 4 MiB and found the same numbers"
             : code == CLI_FINDING ? "another process mapped an array, but found other numbers"
                                   : "another process could not map the array");
    SHARED_TRY(doing, "end the sharing of", acre_share_close(share));
    SHARED_TRY(doing, "destroy an array of", acre_vec_destroy(vec, NULL));
    part->time_ns = cli_now_ns() - begin;
    return ACRE_OK;
}
