/* A small libnvidia-ml.so.1 for tests/cli/test_cli_limit.sh: two devices of 80 GiB. The test sets
 * the UUID of the first one. */
#include <stdio.h>
#include <string.h>

__attribute__((visibility("default"))) char fake_nvml_uuid[96];
__attribute__((visibility("default"))) int nvmlDeviceGetUUID(void *, char *, unsigned);
__attribute__((visibility("default"))) int nvmlDeviceGetMemoryInfo(void *, unsigned long long *);
__attribute__((visibility("default"))) int nvmlDeviceGetMemoryInfo_v2(void *, unsigned long long *);

static const unsigned long long GIB = 1ull << 30;

int nvmlDeviceGetUUID(void *device, char *text, unsigned bytes) {
    snprintf(text, bytes, "%s", device == (void *)1 ? fake_nvml_uuid : "GPU-another");
    return 0;
}

int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *memory) {
    (void)device;
    const unsigned long long values[] = {80 * GIB, 79 * GIB, GIB};
    memcpy(memory, values, sizeof values);
    return 0;
}

int nvmlDeviceGetMemoryInfo_v2(void *device, unsigned long long *memory) {
    (void)device; /* the first word has the version */
    const unsigned long long values[] = {80 * GIB, GIB, 78 * GIB, GIB};
    memcpy(memory + 1, values, sizeof values);
    return 0;
}
