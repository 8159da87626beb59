/* Memory of a device by process, from NVML, for the report at an out-of-memory error. NVML is used
 * only if the program has loaded and initialised it: the shim loads nothing.
 *
 * In a container NVML may know this process by another number, or not at all. Then there is no
 * answer. The types are those of nvml.h, as far as they are needed. Locks: none. */
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "elf_find.h"
#include "ledger.h"

enum { PROCESSES = 512, PROCESSES_BUS = 32 };

/* nvmlProcessInfo_t of nvmlDeviceGetComputeRunningProcesses_v3. */
struct processes_info {
    unsigned int pid;
    unsigned long long bytes; /* UINT64_MAX: not available */
    unsigned int gpu_instance, compute_instance;
};

typedef int (*processes_handle_fn)(const char *bus, void **device_out);
typedef int (*processes_list_fn)(void *device, unsigned int *count,
                                 struct processes_info *infos_out);

static int processes_look(struct dl_phdr_info *info, size_t bytes, void *user) {
    struct link_map *library = user, map = {.l_addr = info->dlpi_addr};
    (void)bytes;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            map.l_ld = (ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    }
    if (!map.l_ld || !acre__elf_has_soname(&map, "libnvidia-ml.so.1"))
        return 0;
    *library = map;
    return 1;
}

/* Adds up the list. Returns 0 if this process is not in it, or a number is not available. */
static int processes_sum(const struct processes_info *infos, unsigned count, uint64_t *own_out,
                         uint64_t *others_out) {
    int is_found = 0;
    uint64_t own = 0, others = 0;
    for (unsigned i = 0; i < count; i++) {
        int is_own = infos[i].pid == (unsigned)getpid();
        if (infos[i].bytes == UINT64_MAX)
            return 0;
        *(is_own ? &own : &others) += infos[i].bytes;
        is_found |= is_own;
    }
    *own_out = own;
    *others_out = others;
    return is_found;
}

int acre__ledger_processes(CUdevice device, uint64_t *own_out, uint64_t *others_out) {
    char bus[PROCESSES_BUS];
    struct link_map library;
    processes_handle_fn get_handle;
    processes_list_fn get_list;
    void *handle = NULL;
    unsigned count = PROCESSES;
    if (!dl_iterate_phdr(processes_look, &library) ||
        acre__ledger_driver()->cuDeviceGetPCIBusId(bus, (int)sizeof bus, device))
        return 0;
    void *found = acre__elf_find(&library, "nvmlDeviceGetHandleByPciBusId_v2");
    void *list = acre__elf_find(&library, "nvmlDeviceGetComputeRunningProcesses_v3");
    struct processes_info *infos = found && list ? calloc(PROCESSES, sizeof *infos) : NULL;
    if (!infos)
        return 0;
    memcpy(&get_handle, &found, sizeof found);
    memcpy(&get_list, &list, sizeof list);
    int is_known = get_handle(bus, &handle) == 0 && get_list(handle, &count, infos) == 0 &&
                   count <= PROCESSES && processes_sum(infos, count, own_out, others_out);
    free(infos);
    return is_known;
}
