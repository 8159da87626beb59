/* Finds out whether a profiler or sanitizer of NVIDIA's is in this process; see shim_serve.h.
 *
 * Such tools follow the driver's own allocations: compute-sanitizer does not see a write past a
 * block that acre has cut from a larger one. */
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "shim_serve.h"

/* Parts of the names of the libraries that the tools load into a program. */
static const char *const profiler_parts[] = {"sanitizer-collection", "ToolsInjection",
                                             "TreeLauncherTarget", "InterceptorInjectionTarget",
                                             "libcuinj64"};

static int profiler_look(struct dl_phdr_info *info, size_t bytes, void *user) {
    const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    const char **found = user;
    (void)bytes;
    for (size_t i = 0; slash && i < sizeof profiler_parts / sizeof profiler_parts[0]; i++) {
        if (strstr(slash, profiler_parts[i]))
            *found = slash + 1;
    }
    return *found != NULL;
}

const char *acre__profiler(void) {
    static const char *const variables[] = {"CUDA_INJECTION64_PATH", "NV_SANITIZER_INJECTION"};
    const char *found = NULL;
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const char *value = getenv(variables[i]);
        if (value && *value)
            return value;
    }
    (void)dl_iterate_phdr(profiler_look, &found);
    return found;
}
