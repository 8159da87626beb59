/* A libnvidia-ml.so.1 for the report at an out-of-memory error: on every device this process has
 * 38 MiB, and another one 1 MiB. */
#include <string.h>
#include <unistd.h>

#define FAKE_EXPORT __attribute__((visibility("default")))

struct info {
    unsigned pid;
    unsigned long long bytes;
    unsigned gpu_instance, compute_instance;
};

FAKE_EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device_out);
FAKE_EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(const void *device, unsigned *count,
                                                        struct info *infos_out);

static int the_device;

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device_out) {
    *device_out = &the_device;
    return strchr(bus, ':') ? 0 : 2;
}

int nvmlDeviceGetComputeRunningProcesses_v3(const void *device, unsigned *count,
                                            struct info *infos_out) {
    enum { INSUFFICIENT_SIZE = 7, MIB = 1 << 20 };
    if (device != &the_device || *count < 2)
        return INSUFFICIENT_SIZE;
    *count = 2;
    infos_out[0] = (struct info){1, 1 * MIB, 0, 0};
    infos_out[1] = (struct info){(unsigned)getpid(), 38ull * MIB, 0, 0};
    return 0;
}
