/*
 * The conformance suite of drivers: what every case may use.
 *
 * A case makes raw calls through the table `conf.drv` and records the results. The runner prints
 * one line for it, "group.case: label=CODE label=fact ...". Every driver must produce the same
 * lines, so a case never prints a value that differs from run to run: no address, no time, no id.
 *
 * Rules for cases. Leave the driver as it was. (The runner synchronises the context after each
 * case, and reports a failure or another current context.) Never wait without a bound. Close at
 * most one gate at a time, because a driver may run all host functions on one thread. A case that
 * may crash the driver or poison the context runs alone, in a separate process.
 */
#ifndef ACRE_TESTS_CONFORMANCE_H
#define ACRE_TESTS_CONFORMANCE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "driver/driver.h"

enum {
    CONF_ALONE = 1,  /* case: runs in a separate process */
    CONF_CUDA = 2,   /* case: launches kernels or the like; not run on the soft driver */
    CONF_BARE = 4,   /* group: no cuInit and no context before its cases */
    CONF_FAULT = 8,  /* group: on the soft driver the table is wrapped by driver_fault */
    CONF_EAGER = 16, /* group: modules are loaded whole by cuModuleLoadData */
    CONF_CASE_SECONDS = 300,
    CONF_GATE_SECONDS = 200
};

struct conf_case {
    const char *name;
    void (*run)(void);
    unsigned flags;
};

struct conf_group {
    const char *name;
    const struct conf_case *cases;
    size_t count;
    unsigned flags;
};

#define CONF_GROUP(word, group_flags)                                                              \
    const struct conf_group conf_group_##word = {                                                  \
        #word, word##_cases, sizeof word##_cases / sizeof word##_cases[0], group_flags}

extern const struct conf_group conf_group_before, conf_group_device, conf_group_context,
    conf_group_limits, conf_group_chunk, conf_group_map, conf_group_access, conf_group_share,
    conf_group_plain, conf_group_host, conf_group_managed, conf_group_pointer, conf_group_copy,
    conf_group_fill, conf_group_stream, conf_group_event, conf_group_order, conf_group_wait,
    conf_group_capture, conf_group_graph, conf_group_null, conf_group_sticky, conf_group_launch,
    conf_group_plane, conf_group_pool, conf_group_async, conf_group_poolshare, conf_group_own,
    conf_group_reset;

/* The driver under test; set up by the runner before a group's first case. */
struct conf {
    const struct acre__driver *drv;
    const char *driver;  /* "soft" or "cuda" */
    CUdevice dev;        /* ordinal 0 */
    CUcontext ctx;       /* its primary context, current */
    size_t chunk_bytes;  /* granularity of chunks: 2 MiB everywhere we know */
    size_t device_bytes; /* memory of the device */
};
extern struct conf conf;

/* ---- recording results ----------------------------------------------------------------------- */

/* Records " label=INVALID_VALUE". Returns the code. */
CUresult conf_code(const char *label, CUresult code);
/* Records " label=3". */
void conf_fact(const char *label, long long value);
/* Records " label=word". */
void conf_word(const char *label, const char *word);
/* Records " label=3" on success, else " label=CODE". For queries, whose value is undefined on
 * failure. */
void conf_value(const char *label, CUresult code, long long value);
/* For calls that a case needs before it can begin: records only a failure. Returns 0 on success. */
int conf_need(const char *label, CUresult code);
/* Returns a code without the common prefix, such as "INVALID_VALUE". Valid until the next call. */
const char *conf_code_word(CUresult code);
/* Appends text unchanged, such as the output of another process. */
void conf_text(const char *text);

/* ---- gates: block a stream until the host opens them ----------------------------------------- */

struct conf_gate {
    _Atomic int entered; /* the stream has reached the gate */
    _Atomic int open;
    _Atomic int expired; /* nobody opened it in time: something waited that should not have */
};

/* Queues the gate on the stream and waits until the stream reaches it. Returns 0 on success. */
int conf_gate_close(struct conf_gate *gate, CUstream stream);
/* Returns 1 while the gate blocks its stream. */
int conf_gate_holds(struct conf_gate *gate);
void conf_gate_open(struct conf_gate *gate);

/* Waits up to `ms` for the flag to become non-zero. Returns the flag. */
int conf_wait_flag(_Atomic int *flag, unsigned ms);

/* ---- virtual memory by hand ------------------------------------------------------------------ */

enum { CONF_CHUNKS = 4 };

/* A reservation with chunks mapped from its start. conf_range_drop releases all of it. */
struct conf_range {
    CUdeviceptr base;
    size_t bytes;
    size_t chunk_bytes;
    unsigned count; /* chunks mapped */
    CUmemGenericAllocationHandle handle[CONF_CHUNKS];
};

CUmemAllocationProp conf_prop(void);      /* a device chunk */
CUmemAllocationProp conf_prop_host(void); /* a host chunk of the device's NUMA node */
CUmemLocation conf_here(void);            /* the device */
CUresult conf_allow(CUdeviceptr ptr, size_t bytes, CUmemAccess_flags flags);

/* Reserves `chunks` * `chunk_bytes` and maps `mapped` chunks. Records a failure. Returns 0 on
 * success. */
int conf_range_make(struct conf_range *range, unsigned chunks, unsigned mapped, size_t chunk_bytes);
void conf_range_drop(struct conf_range *range);

/* Write and read one word of device memory with synchronous copies. conf_peek returns ~0 on
 * failure. */
CUresult conf_poke(CUdeviceptr ptr, uint32_t value);
uint32_t conf_peek(CUdeviceptr ptr);

/* ---- the other process of groups share and poolshare ----------------------------------------- */

enum { CONF_SHARE_BYTES = 100, CONF_SHARE_CHUNK = 'f', CONF_SHARE_POOL = 'p' };

int conf_share_child(int socket_fd);
/* Sends the descriptor and a message to another process and records what it prints. The first byte
 * of the message says what they are. */
void conf_share_with_child(int fd, const void *message, size_t bytes);
/* In that process: uses the imported pool and its block. */
void conf_pool_use_elsewhere(int fd, const CUmemPoolPtrExportData *data);

#endif
