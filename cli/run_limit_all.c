/* See run_limit_all.h.
 *
 * The driver does not say what a context or a module takes. NVML says what a process has in all;
 * the rest beyond its counted memory is charged, after the fact: it may exceed the limit, and
 * nothing else is granted then. A slot that changes while NVML is asked keeps its charge until the
 * next look. In a container NVML may not list the processes. Then nothing is charged, and a message
 * says so. */
#include "run_limit_all.h"

#include <stdlib.h>

#include "cli.h"
#include "top_nvml.h"

enum { LIMIT_ALL_PATIENCE = 40 }; /* looks without an answer until the message */

bool run_limit_all_begin(void) {
    struct top_nvml now;
    if (!top_nvml_look(&now)) {
        cli_say("--limit-all needs NVML, libnvidia-ml.so.1, which comes with NVIDIA's driver: it "
                "says what a process has");
        return false;
    }
    free(now.uses);
    return true;
}

/* Returns what NVML says that a process has on all cards. */
static bool limit_all_find(const struct top_nvml *now, int64_t pid, uint64_t *bytes) {
    bool is_found = false;
    *bytes = 0;
    for (size_t i = 0; i < now->use_count; i++) {
        if (now->uses[i].pid == pid && now->uses[i].bytes != TOP_UNKNOWN) {
            *bytes += now->uses[i].bytes;
            is_found = true;
        }
    }
    return is_found;
}

static void limit_all_complain(bool is_missing) {
    static int looks;
    if (!is_missing) {
        looks = 0;
    } else if (++looks == LIMIT_ALL_PATIENCE) {
        cli_say("NVML does not list the program's processes (in a container it may not): contexts "
                "and modules are not counted");
    }
}

void run_limit_all_look(struct limit_file *file) {
    struct top_nvml now;
    static uint64_t before[LIMIT_SLOTS];
    bool is_missing = false;
    for (size_t i = 0; i < LIMIT_SLOTS; i++) {
        before[i] = atomic_load(&file->slots[i].used);
    }
    if (!top_nvml_look(&now)) {
        return;
    }
    for (size_t i = 0; i < LIMIT_SLOTS; i++) {
        struct limit_slot *slot = &file->slots[i];
        int64_t pid = atomic_load(&slot->pid);
        uint64_t other = atomic_load(&slot->other), bytes = 0;
        if (!pid || other > before[i]) {
            continue;
        }
        if (limit_all_find(&now, pid, &bytes)) {
            uint64_t counted = before[i] - other;
            acre__limit_set_other(file, slot, before[i], bytes > counted ? bytes - counted : 0);
        } else {
            is_missing = true;
        }
    }
    limit_all_complain(is_missing);
    free(now.uses);
}
