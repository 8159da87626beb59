/* See ledger_oom.h.
 *
 * What is in use and not recorded belongs to other processes, to contexts, code and graphs, and to
 * libraries that call the driver by its private tables. The driver does not tell them apart; NVML
 * does, by process. */
#include "ledger_oom.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ledger.h"

enum {
    OOM_REPORTS = 5,
    OOM_ROWS = 8,    /* libraries that are listed; the rest are "others" */
    OOM_GROUPS = 64, /* libraries that are told apart */
    OOM_NAME = 2 * RUN_NAME_BYTES + 32,
    OOM_TEXT = 32
};

static struct {
    _Atomic int is_on;
    pthread_mutex_t lock;
    uint32_t sites[OOM_REPORTS];
    unsigned count;
} oom = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Memory that one library has allocated. */
struct oom_group {
    char name[OOM_NAME];
    uint64_t bytes, count;
};

struct oom_card {
    int is_known; /* the driver has answered */
    CUdevice device;
    int device_count;
    size_t free_bytes, total_bytes;
    int has_processes;                /* the next two are known */
    uint64_t own_bytes, others_bytes; /* of this process, and of all others */
    uint64_t idle_bytes;              /* of the driver's default pool: reserved, not in use */
    struct oom_group groups[OOM_GROUPS];
    unsigned group_count;
    uint64_t recorded_bytes, other_bytes; /* in all; in groups that found no room */
};

void acre__oom_begin(void) {
    atomic_store_explicit(&oom.is_on, 1, memory_order_relaxed);
}

void acre__oom_in_child(void) {
    pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    oom.lock = fresh;
    oom.count = 0;
}

/* ---- what to report ---- */

/* Host memory and addresses are not memory of the card. */
static int request_is_of_card(const struct ledger_request *request) {
    return request->kind != RUN_PINNED && request->kind != RUN_REGISTERED &&
           request->kind != RUN_ADDRESSES;
}

/* Returns the number of the report for the first error of a site, from 1; else 0. */
static unsigned oom_number(uint32_t site) {
    unsigned is_new = 1;
    pthread_mutex_lock(&oom.lock);
    for (unsigned i = 0; i < oom.count; i++)
        is_new &= oom.sites[i] != site;
    if (oom.count == OOM_REPORTS)
        is_new = 0;
    if (is_new)
        oom.sites[oom.count++] = site;
    unsigned number = is_new ? oom.count : 0;
    pthread_mutex_unlock(&oom.lock);
    return number;
}

/* ---- the card ---- */

/* Copies "libfoo.so" of "libfoo.so+0x11d8". */
static void oom_module(const void *address, char name[RUN_NAME_BYTES]) {
    uint64_t offset;
    if (!address || !acre__ledger_module((uintptr_t)address - 1, name, RUN_NAME_BYTES, &offset))
        snprintf(name, RUN_NAME_BYTES, "code without a file");
}

static void oom_name(const struct acre_ledger_caller *caller, char name[OOM_NAME]) {
    char library[RUN_NAME_BYTES], outer[RUN_NAME_BYTES];
    oom_module(caller->address, library);
    if (caller->from)
        oom_module(caller->from, outer);
    snprintf(name, OOM_NAME, "%s%s%s", library, caller->from ? RUN_FROM : "",
             caller->from ? outer : "");
}

static void oom_add(struct oom_card *card, const char *name, uint64_t bytes) {
    unsigned i = 0;
    card->recorded_bytes += bytes;
    while (i < card->group_count && strcmp(card->groups[i].name, name) != 0)
        i++;
    if (i == OOM_GROUPS) {
        card->other_bytes += bytes;
        return;
    }
    if (i == card->group_count) {
        snprintf(card->groups[i].name, OOM_NAME, "%s", name);
        card->group_count++;
    }
    card->groups[i].bytes += bytes;
    card->groups[i].count++;
}

/* Returns 1 unless the memory is known to be on another device. */
static int row_is_of_card(const struct ledger_row *row, const struct oom_card *card) {
    int device = 0;
    if (card->device_count < 2 || !row->address)
        return 1;
    return acre__ledger_driver()->cuPointerGetAttribute(
               &device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, row->address) != CUDA_SUCCESS ||
           device == card->device;
}

static int row_order(const void *a, const void *b) {
    const struct ledger_row *one = a, *other = b;
    uintptr_t address = (uintptr_t)one->caller.address, from = (uintptr_t)one->caller.from;
    uintptr_t other_address = (uintptr_t)other->caller.address;
    uintptr_t other_from = (uintptr_t)other->caller.from;
    int by = (address > other_address) - (address < other_address);
    return by ? by : (from > other_from) - (from < other_from);
}

static int group_order(const void *a, const void *b) {
    const struct oom_group *one = a, *other = b;
    return (one->bytes < other->bytes) - (one->bytes > other->bytes);
}

/* Groups the recorded memory by library. Rows of one caller are adjacent, so that each name is made
 * once. Returns 0 without host memory. */
static int card_read_ledger(struct oom_card *card) {
    char name[OOM_NAME] = "";
    size_t room = acre__ledger_rows(NULL, 0) + 1024; /* other threads may allocate meanwhile */
    struct ledger_row *rows = calloc(room, sizeof *rows);
    if (!rows)
        return 0;
    size_t count = acre__ledger_rows(rows, room);
    count = count < room ? count : room;
    qsort(rows, count, sizeof *rows, row_order);
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || row_order(&rows[i - 1], &rows[i]) != 0)
            oom_name(&rows[i].caller, name);
        if (row_is_of_card(&rows[i], card))
            oom_add(card, name, rows[i].bytes);
    }
    free(rows);
    qsort(card->groups, card->group_count, sizeof *card->groups, group_order);
    return 1;
}

static void card_read_driver(struct oom_card *card) {
    const struct acre__driver *drv = acre__ledger_driver();
    CUmemoryPool pool;
    uint64_t reserved = 0, used = 0;
    card->is_known = drv->cuCtxGetDevice(&card->device) == CUDA_SUCCESS &&
                     drv->cuMemGetInfo(&card->free_bytes, &card->total_bytes) == CUDA_SUCCESS;
    if (!card->is_known || drv->cuDeviceGetCount(&card->device_count) != CUDA_SUCCESS)
        return;
    card->has_processes =
        acre__ledger_processes(card->device, &card->own_bytes, &card->others_bytes);
    if (acre__ledger_count(RUN_ORDERED).made &&
        drv->cuDeviceGetDefaultMemPool(&pool, card->device) == CUDA_SUCCESS &&
        drv->cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved) ==
            CUDA_SUCCESS &&
        drv->cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used) == CUDA_SUCCESS)
        card->idle_bytes = reserved > used ? reserved - used : 0;
}

/* ---- text ---- */

static void print_row(FILE *out, const struct oom_card *card, uint64_t bytes, const char *name) {
    char size[OOM_TEXT];
    acre__run_bytes(bytes, size, sizeof size);
    if (card->is_known && card->total_bytes)
        fprintf(out, "  %12s %5.1f %%  %s\n", size,
                100.0 * (double)bytes / (double)card->total_bytes, name);
    else
        fprintf(out, "  %12s  %s\n", size, name);
}

static void print_libraries(FILE *out, const struct oom_card *card) {
    uint64_t others = card->other_bytes;
    for (unsigned i = 0; i < card->group_count; i++) {
        char line[OOM_NAME + OOM_TEXT];
        if (i >= OOM_ROWS) {
            others += card->groups[i].bytes;
            continue;
        }
        snprintf(line, sizeof line, "%.*s (allocations: %" PRIu64 ")", (int)OOM_NAME - 1,
                 card->groups[i].name, card->groups[i].count);
        print_row(out, card, card->groups[i].bytes, line);
    }
    if (others)
        print_row(out, card, others, "others");
}

/* What is in use beyond `known` bytes, by process if the numbers of NVML agree with the driver's.
 */
static void print_unknown(FILE *out, const struct oom_card *card, uint64_t in_use, uint64_t known) {
    uint64_t of_processes = card->own_bytes + card->others_bytes;
    if (!card->has_processes || card->own_bytes < known || of_processes > in_use) {
        print_row(out, card, in_use - known, "other processes, contexts, code and rounding");
        return;
    }
    print_row(out, card, card->own_bytes - known, "this program's contexts, code and rounding");
    print_row(out, card, card->others_bytes, "other processes");
    print_row(out, card, in_use - of_processes, "the driver itself");
}

/* The lines add up to the card, unless recorded memory is not on it. */
static void print_rest(FILE *out, const struct oom_card *card) {
    uint64_t in_use = card->total_bytes - card->free_bytes;
    uint64_t known = card->recorded_bytes + card->idle_bytes;
    char size[OOM_TEXT];
    if (card->idle_bytes)
        print_row(out, card, card->idle_bytes,
                  "idle in the driver's default pool (cuMemPoolTrimTo frees it)");
    if (in_use >= known)
        print_unknown(out, card, in_use, known);
    print_row(out, card, card->free_bytes, "free");
    print_row(out, card, card->total_bytes, "in all");
    if (in_use < known)
        fprintf(out,
                "  %s of the recorded memory are not on the card: managed memory is in host "
                "memory, or a chunk is\n",
                acre__run_bytes(known - in_use, size, sizeof size));
}

static void print_request(FILE *out, const struct acre_ledger_caller *caller,
                          const struct ledger_request *request) {
    char size[OOM_TEXT], place[RUN_TEXT_BYTES], from[RUN_TEXT_BYTES] = "";
    if (caller->from)
        acre__record_line(caller->from, from, sizeof from);
    fprintf(out, "acre: out of memory: %s%s%s, called at %s%s%s\n", caller->call,
            request->bytes ? " of " : "",
            request->bytes ? acre__run_bytes(request->bytes, size, sizeof size) : "",
            acre__record_line(caller->address, place, sizeof place), from[0] ? RUN_FROM : "", from);
}

/* Says what is left of the memory limit. Returns 1 if that is too little for the request. */
static int print_limit(FILE *out, const struct ledger_request *request) {
    struct ledger_limit at;
    char all[OOM_TEXT], own[OOM_TEXT], others[OOM_TEXT], left[OOM_TEXT];
    if (!acre__ledger_limit(&at))
        return 0;
    fprintf(out, "acre: limit %s%s: this process has %s, ",
            acre__run_bytes(at.limit, all, OOM_TEXT), at.is_each ? " for each process" : "",
            acre__run_bytes(at.own, own, OOM_TEXT));
    if (!at.is_each)
        fprintf(out, "others have %s, ", acre__run_bytes(at.others, others, OOM_TEXT));
    fprintf(out, "%s left; 'acre limit %ld SIZE' changes it\n",
            acre__run_bytes(at.left, left, OOM_TEXT), (long)getpid());
    return request->bytes > at.left;
}

static void print_card(FILE *out, const struct oom_card *card,
                       const struct ledger_request *request) {
    if (!card->is_known)
        fputs("acre: the driver does not tell how much memory the card has: a capture is in "
              "progress, or no context is current. This program's memory:\n",
              out);
    else
        fprintf(out, "acre: memory of device %d, by the library that allocated it:\n",
                card->device);
    print_libraries(out, card);
    if (card->is_known)
        print_rest(out, card);
    int is_limit = print_limit(out, request);
    if (card->is_known && request->bytes && request->bytes <= card->free_bytes && !is_limit)
        fputs("  the free memory is enough for the request: a limit applies, or it is in pieces\n",
              out);
}

void acre__oom_report(const struct acre_ledger_caller *caller,
                      const struct ledger_request *request) {
    struct acre_ledger_caller full = *caller;
    char *text = NULL;
    size_t length = 0;
    if (!atomic_load_explicit(&oom.is_on, memory_order_relaxed) || !request_is_of_card(request))
        return;
    unsigned depth = acre__ledger_stack_depth(1); /* rare, so worth the time */
    if (depth && !full.from)
        acre__ledger_outside(&full, depth);
    unsigned number = oom_number(acre__record_site(&full));
    if (!number)
        return;
    struct oom_card *card = calloc(1, sizeof *card);
    FILE *out = card ? open_memstream(&text, &length) : NULL;
    if (out) {
        card_read_driver(card);
        print_request(out, &full, request);
        if (card_read_ledger(card))
            print_card(out, card, request);
        if (number == OOM_REPORTS)
            fputs("acre: further out-of-memory errors are not reported\n", out);
        /* One write, so that lines of several threads do not mix. */
        if (fclose(out) == 0 && acre__ledger_has_stderr())
            (void)fwrite(text, 1, length, stderr);
    }
    free(text);
    free(card);
}
