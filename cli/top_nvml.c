/* NVML for `acre top`: see top_nvml.h.
 *
 * The library is loaded at run time, and the types are those of nvml.h as far as they are needed:
 * the tool needs neither to build. NVML stays initialised until the tool ends. */
#include "top_nvml.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "stats_read.h"

enum { NVML_SUCCESS = 0, NVML_PROCESSES = 1024, NVML_NAME_BYTES = 96 };

typedef void *nvml_device;

struct nvml_memory {
    unsigned long long total, free, used;
};

struct nvml_utilization {
    unsigned gpu, memory;
};

/* nvmlPciInfo_t */
struct nvml_pci {
    char bus_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

/* nvmlProcessInfo_t of the functions with _v3. */
struct nvml_process {
    unsigned pid;
    unsigned long long bytes;
    unsigned gpu_instance, compute_instance;
};

#define NVML_LIST(X)                                                                               \
    X(init, nvmlInit_v2, (void))                                                                   \
    X(get_count, nvmlDeviceGetCount_v2, (unsigned *count))                                         \
    X(get_handle, nvmlDeviceGetHandleByIndex_v2, (unsigned index, nvml_device *device))            \
    X(get_name, nvmlDeviceGetName, (nvml_device device, char *name, unsigned bytes))               \
    X(get_memory, nvmlDeviceGetMemoryInfo, (nvml_device device, struct nvml_memory * memory))      \
    X(get_pci, nvmlDeviceGetPciInfo_v3, (nvml_device device, struct nvml_pci * pci))               \
    X(get_busy, nvmlDeviceGetUtilizationRates,                                                     \
      (nvml_device device, struct nvml_utilization * busy))                                        \
    X(get_compute, nvmlDeviceGetComputeRunningProcesses_v3,                                        \
      (nvml_device device, unsigned *count, struct nvml_process *infos))                           \
    X(get_graphics, nvmlDeviceGetGraphicsRunningProcesses_v3,                                      \
      (nvml_device device, unsigned *count, struct nvml_process *infos))

static struct {
    bool is_begun, is_ready;
#define NVML_FIELD(field, symbol, params) int(*field) params;
    NVML_LIST(NVML_FIELD)
#undef NVML_FIELD
} nvml;

/* Functions that a library lacks stay NULL. */
static bool nvml_begin(void) {
    if (nvml.is_begun) {
        return nvml.is_ready;
    }
    nvml.is_begun = true;
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        return false;
    }
    void *found;
#define NVML_FIND(field, symbol, params)                                                           \
    found = dlsym(library, #symbol);                                                               \
    memcpy(&nvml.field, &found, sizeof found);
    NVML_LIST(NVML_FIND)
#undef NVML_FIND
    nvml.is_ready = nvml.init && nvml.get_count && nvml.get_handle && nvml.get_memory &&
                    nvml.init() == NVML_SUCCESS;
    return nvml.is_ready;
}

/* Adds a process, or to one that has several entries on a card: a compute and a graphics context
 * have the same memory, parts of a card (MIG) have each their own. */
static void nvml_add(struct top_nvml *now, const struct nvml_process *info, bool is_graphics) {
    unsigned card = (unsigned)now->card_count - 1;
    uint64_t bytes = info->bytes == UINT64_MAX ? TOP_UNKNOWN : info->bytes;
    for (size_t i = now->use_count; i > 0 && now->uses[i - 1].card == card; i--) {
        struct top_nvml_use *use = &now->uses[i - 1];
        if (use->pid != (int64_t)info->pid) {
            continue;
        }
        if (use->bytes == TOP_UNKNOWN) {
            use->bytes = bytes;
        } else if (!is_graphics && bytes != TOP_UNKNOWN) {
            use->bytes += bytes;
        }
        return;
    }
    if (now->use_count < (size_t)NVML_PROCESSES * TOP_CARDS) {
        now->uses[now->use_count++] =
            (struct top_nvml_use){.pid = info->pid, .card = card, .bytes = bytes};
    }
}

static void nvml_look_processes(struct top_nvml *now, nvml_device device) {
    int (*const lists[])(nvml_device, unsigned *, struct nvml_process *) = {nvml.get_compute,
                                                                            nvml.get_graphics};
    static struct nvml_process infos[NVML_PROCESSES];
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        unsigned count = NVML_PROCESSES;
        if (!lists[i] || lists[i](device, &count, infos) != NVML_SUCCESS) {
            continue;
        }
        for (unsigned k = 0; k < count && k < NVML_PROCESSES; k++) {
            nvml_add(now, &infos[k], i == 1);
        }
    }
}

static void nvml_look_card(struct top_nvml *now, unsigned index) {
    nvml_device device = NULL;
    struct nvml_memory memory = {0};
    struct nvml_utilization busy = {0};
    struct nvml_pci pci;
    char name[NVML_NAME_BYTES] = "";
    memset(&pci, 0, sizeof pci);
    if (nvml.get_handle(index, &device) != NVML_SUCCESS ||
        nvml.get_memory(device, &memory) != NVML_SUCCESS) {
        return;
    }
    struct top_card *card = &now->cards[now->card_count++];
    *card = (struct top_card){
        .index = index, .total = memory.total, .used = memory.used, .busy_percent = -1};
    if (nvml.get_name && nvml.get_name(device, name, sizeof name) == NVML_SUCCESS) {
        snprintf(card->name, sizeof card->name, "%.63s", name);
    }
    if (nvml.get_pci && nvml.get_pci(device, &pci) == NVML_SUCCESS) {
        snprintf(card->bus, sizeof card->bus, "%.31s", pci.bus_id);
    }
    if (nvml.get_busy && nvml.get_busy(device, &busy) == NVML_SUCCESS && busy.gpu <= 100) {
        card->busy_percent = (int)busy.gpu;
    }
    stats_text_clean(card->name, sizeof card->name);
    stats_text_clean(card->bus, sizeof card->bus);
    nvml_look_processes(now, device);
}

bool top_nvml_look(struct top_nvml *now) {
    unsigned count = 0;
    *now = (struct top_nvml){0};
    if (!nvml_begin() || nvml.get_count(&count) != NVML_SUCCESS) {
        return false;
    }
    now->uses = cli_alloc((size_t)NVML_PROCESSES * TOP_CARDS * sizeof *now->uses);
    for (unsigned i = 0; i < count && i < TOP_CARDS; i++) {
        nvml_look_card(now, i);
    }
    return true;
}
