/* A libnvidia-ml.so.1 for tests of `acre top`: two cards, with a name that has control characters.
 * NVML_BUS is the address of the second one. NVML_PIDS has processes, as "PID:CARD:MIB,..."; MIB
 * may be "-": not available; NVML_FILE is a file with such a text, read at each query. With
 * NVML_FAILS set, initialisation fails, as it does without a driver. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAKE_EXPORT __attribute__((visibility("default")))

struct info {
    unsigned pid;
    unsigned long long bytes;
    unsigned gpu_instance, compute_instance;
};

struct pci {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char bus_id[32];
};

FAKE_EXPORT int nvmlInit_v2(void);
FAKE_EXPORT int nvmlDeviceGetCount_v2(unsigned *count);
FAKE_EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device_out);
FAKE_EXPORT int nvmlDeviceGetName(const void *device, char *name, unsigned bytes);
FAKE_EXPORT int nvmlDeviceGetMemoryInfo(const void *device, unsigned long long *memory);
FAKE_EXPORT int nvmlDeviceGetPciInfo_v3(const void *device, struct pci *out);
FAKE_EXPORT int nvmlDeviceGetUtilizationRates(const void *device, unsigned *out);
FAKE_EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(const void *device, unsigned *count,
                                                        struct info *infos);

static int the_cards[2];

static unsigned card_of(const void *device) {
    return device == &the_cards[1];
}

int nvmlInit_v2(void) {
    enum { DRIVER_NOT_LOADED = 9 };
    return getenv("NVML_FAILS") ? DRIVER_NOT_LOADED : 0;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = 2;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device_out) {
    *device_out = &the_cards[index];
    return 0;
}

int nvmlDeviceGetName(const void *device, char *name, unsigned bytes) {
    snprintf(name, bytes, "%s", card_of(device) ? "evil\033[31m\xe2\x80\xae card" : "NVIDIA H200");
    return 0;
}

int nvmlDeviceGetMemoryInfo(const void *device, unsigned long long *memory) {
    const unsigned long long gib = 1ull << 30;
    memory[0] = 80 * gib;
    memory[2] = card_of(device) ? 76 * gib : 20 * gib;
    memory[1] = memory[0] - memory[2];
    return 0;
}

int nvmlDeviceGetPciInfo_v3(const void *device, struct pci *out) {
    const char *bus = getenv("NVML_BUS"); /* of the second card */
    memset(out, 0, sizeof *out);
    if (bus && card_of(device))
        snprintf(out->bus_id, sizeof out->bus_id, "0000%s", bus);
    else
        snprintf(out->bus_id, sizeof out->bus_id, "00000000:%02X:00.0", 0x3b + card_of(device));
    return 0;
}

int nvmlDeviceGetUtilizationRates(const void *device, unsigned *out) {
    out[0] = card_of(device) ? 97 : 12;
    out[1] = 0;
    return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(const void *device, unsigned *count,
                                            struct info *infos) {
    const char *text = getenv("NVML_PIDS");
    static char content[256];
    FILE *in = getenv("NVML_FILE") ? fopen(getenv("NVML_FILE"), "r") : NULL;
    if (in) {
        text = fgets(content, sizeof content, in);
        fclose(in);
    }
    unsigned room = *count, pid, card;
    unsigned long long mib;
    *count = 0;
    while (text && *text && *count < room && sscanf(text, "%u:%u:", &pid, &card) == 2) {
        const char *end = text + strcspn(text, ","), *last = end;
        while (last > text && last[-1] != ':')
            last--;
        mib = strtoull(last, NULL, 10);
        if (card == card_of(device))
            infos[(*count)++] =
                (struct info){pid, *last == '-' ? ~0ull : mib << 20, 0xffffffff, 0xffffffff};
        text = *end ? end + 1 : end;
    }
    return 0;
}
