/*
 * Helpers for the cases of the conformance suite: the output line, gates, and mapped chunks. See
 * conformance.h. The line is static: cases run one after another on one thread, and only that
 * thread prints.
 */
#include "conformance.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "conf_run.h"

struct conf conf;

static struct {
    char text[4000];
    size_t length;
} line;

void conf_line_begin(void) {
    line.length = 0;
    line.text[0] = '\0';
}

const char *conf_line(void) {
    return line.text;
}

static void line_add(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void line_add(const char *format, ...) {
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(line.text + line.length, sizeof line.text - line.length, format, args);
    va_end(args);
    if (n > 0)
        line.length += (size_t)n;
    if (line.length >= sizeof line.text)
        line.length = sizeof line.text - 1;
}

/* Codes that are not in the list are printed by number. */
const char *conf_code_word(CUresult code) {
    static char number[24];
    const char *name = acre__driver_error_name(code);

    if (strcmp(name, "CUDA_ERROR_?") == 0) {
        snprintf(number, sizeof number, "CODE_%u", (unsigned)code);
        return number;
    }
    if (strncmp(name, "CUDA_ERROR_", 11) == 0)
        return name + 11;
    return name + 5;
}

CUresult conf_code(const char *label, CUresult code) {
    line_add(" %s=%s", label, conf_code_word(code));
    return code;
}

void conf_fact(const char *label, long long value) {
    line_add(" %s=%lld", label, value);
}

void conf_word(const char *label, const char *word) {
    line_add(" %s=%s", label, word);
}

void conf_value(const char *label, CUresult code, long long value) {
    if (code == CUDA_SUCCESS)
        conf_fact(label, value);
    else
        conf_code(label, code);
}

int conf_need(const char *label, CUresult code) {
    if (code == CUDA_SUCCESS)
        return 0;
    line_add(" setup-%s=%s", label, conf_code_word(code));
    return -1;
}

void conf_text(const char *text) {
    line_add("%s", text);
}

/* ---- gates ----------------------------------------------------------------------------------- */

static void pause_ms(unsigned ms) {
    struct timespec time = {ms / 1000, (long)(ms % 1000) * 1000000};

    nanosleep(&time, NULL);
}

int conf_wait_flag(_Atomic int *flag, unsigned ms) {
    unsigned waited;

    for (waited = 0; waited < ms; waited++) {
        if (atomic_load_explicit(flag, memory_order_acquire))
            return 1;
        pause_ms(1);
    }
    return atomic_load_explicit(flag, memory_order_acquire);
}

static void gate_stand(void *arg) {
    struct conf_gate *gate = arg;

    atomic_store_explicit(&gate->entered, 1, memory_order_release);
    if (!conf_wait_flag(&gate->open, CONF_GATE_SECONDS * 1000))
        atomic_store_explicit(&gate->expired, 1, memory_order_release);
}

int conf_gate_close(struct conf_gate *gate, CUstream stream) {
    atomic_store(&gate->entered, 0);
    atomic_store(&gate->open, 0);
    atomic_store(&gate->expired, 0);
    if (conf_need("gate", conf.drv->cuLaunchHostFunc(stream, gate_stand, gate)) != 0)
        return -1;
    if (!conf_wait_flag(&gate->entered, CONF_GATE_SECONDS * 1000)) {
        conf_word("setup-gate", "never-reached");
        return -1;
    }
    return 0;
}

int conf_gate_holds(struct conf_gate *gate) {
    return !atomic_load(&gate->expired) && !atomic_load(&gate->open);
}

void conf_gate_open(struct conf_gate *gate) {
    atomic_store_explicit(&gate->open, 1, memory_order_release);
}

/* ---- virtual memory by hand ------------------------------------------------------------------ */

CUmemLocation conf_here(void) {
    return (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, conf.dev};
}

CUmemAllocationProp conf_prop(void) {
    CUmemAllocationProp prop;

    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location = conf_here();
    return prop;
}

CUmemAllocationProp conf_prop_host(void) {
    CUmemAllocationProp prop = conf_prop();
    int node = 0;

    if (conf.drv->cuDeviceGetAttribute(&node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, conf.dev) !=
            CUDA_SUCCESS ||
        node < 0)
        node = 0;
    prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
    prop.location.id = node;
    return prop;
}

CUresult conf_allow(CUdeviceptr ptr, size_t bytes, CUmemAccess_flags flags) {
    CUmemAccessDesc desc = {conf_here(), flags};

    return conf.drv->cuMemSetAccess(ptr, bytes, &desc, 1);
}

int conf_range_make(struct conf_range *range, unsigned chunks, unsigned mapped,
                    size_t chunk_bytes) {
    CUmemAllocationProp prop = conf_prop();
    unsigned i;

    memset(range, 0, sizeof *range);
    range->chunk_bytes = chunk_bytes;
    if (conf_need("reserve",
                  conf.drv->cuMemAddressReserve(&range->base, chunks * chunk_bytes, 0, 0, 0)) != 0)
        return -1;
    range->bytes = chunks * chunk_bytes;
    for (i = 0; i < mapped; i++) {
        CUdeviceptr at = range->base + i * chunk_bytes;

        if (conf_need("create", conf.drv->cuMemCreate(&range->handle[i], chunk_bytes, &prop, 0)) !=
            0)
            goto fail;
        if (conf_need("map", conf.drv->cuMemMap(at, chunk_bytes, 0, range->handle[i], 0)) != 0) {
            conf.drv->cuMemRelease(range->handle[i]);
            goto fail;
        }
        range->count = i + 1;
    }
    if (mapped > 0 && conf_need("access", conf_allow(range->base, mapped * chunk_bytes,
                                                     CU_MEM_ACCESS_FLAGS_PROT_READWRITE)) != 0)
        goto fail;
    return 0;

fail:
    conf_range_drop(range);
    return -1;
}

void conf_range_drop(struct conf_range *range) {
    unsigned i;

    for (i = 0; i < range->count; i++) {
        conf_need("unmap",
                  conf.drv->cuMemUnmap(range->base + i * range->chunk_bytes, range->chunk_bytes));
        conf_need("release", conf.drv->cuMemRelease(range->handle[i]));
    }
    range->count = 0;
    if (range->bytes != 0)
        conf_need("address-free", conf.drv->cuMemAddressFree(range->base, range->bytes));
    range->bytes = 0;
}

/* The copy may return once the word is read, before it is written to the device. */
CUresult conf_poke(CUdeviceptr ptr, uint32_t value) {
    CUresult code = conf.drv->cuMemcpyHtoD(ptr, &value, sizeof value);

    return code != CUDA_SUCCESS ? code : conf.drv->cuStreamSynchronize(NULL);
}

uint32_t conf_peek(CUdeviceptr ptr) {
    uint32_t value = 0;

    if (conf.drv->cuMemcpyDtoH(&value, ptr, sizeof value) != CUDA_SUCCESS)
        return ~(uint32_t)0;
    return value;
}
