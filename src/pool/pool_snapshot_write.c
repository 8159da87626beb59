/* Writes a snapshot as JSON, schema "acre-snapshot/1": see pool_snapshot.h.
 *
 * Addresses are strings: JSON readers keep 53 bits of a number. Each call stack is written once,
 * and blocks name it by its number. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/config.h"
#include "base/log.h"
#include "base/stack.h"
#include "base/status.h"
#include "base/symbol.h"
#include "base/thread.h"
#include "pool/pool_snapshot.h"
#include "pool/pool_tag.h"
#include "pool/pool_watch.h"
#include "watch/control.h"

enum { SNAP_PATH = 4096, SNAP_ON_OOM = 8 };

/* ---- text ---- */

/* Writes a JSON string; names may contain any byte. */
static void put_text(FILE *out, const char *text) {
    fputc('"', out);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < ' ' || c >= 0x7f)
            fprintf(out, "\\u%04x", c < ' ' || c == 0x7f ? c : '?');
        else
            fputc(c, out);
    }
    fputc('"', out);
}

static void put_at(FILE *out, uint64_t at, uint64_t bytes) {
    fprintf(out, "{\"address\":\"0x%" PRIx64 "\",\"bytes\":%" PRIu64, at, bytes);
}

static const char *separator(size_t index) {
    return index ? ",\n" : "\n";
}

/* ---- pools ---- */

static void put_block(FILE *out, const struct acre__snap_block *block, uint64_t now_ns) {
    put_at(out, block->at, block->bytes);
    fprintf(out, ",\"slot_bytes\":%" PRIu64, block->slot_bytes);
    if (block->tag) {
        fputs(",\"tag\":", out);
        put_text(out, acre__tag_path(block->tag));
    }
    if (block->is_graph)
        fputs(",\"is_graph\":true", out);
    if (block->is_shared)
        fputs(",\"other_streams\":true", out);
    if (block->since_ns)
        fprintf(out, ",\"stack\":%" PRIu32 ",\"stream\":\"0x%" PRIxPTR "\",\"age_seconds\":%.6f",
                block->stack, (uintptr_t)block->stream,
                now_ns > block->since_ns ? (double)(now_ns - block->since_ns) * 1e-9 : 0.0);
    fputc('}', out);
}

static void put_piece(FILE *out, const struct acre__snap_piece *piece) {
    static const char *const states[] = {"slab", "block", "free", "waiting", "ghost", "lost"};
    put_at(out, piece->at, piece->bytes);
    fprintf(out, ",\"state\":\"%s\"", states[piece->state]);
    if (piece->state == ACRE__SNAP_SLAB)
        fprintf(out, ",\"slot_bytes\":%" PRIu64 ",\"slots\":%" PRIu32, piece->slot_bytes,
                piece->slots);
    if (piece->slots)
        fprintf(out, ",\"live\":%" PRIu32, piece->live);
    fputc('}', out);
}

static void put_pool(FILE *out, const struct acre__snap_pool *pool, uint64_t now_ns) {
    const struct acre__snap_region *regions = pool->regions.items;
    const struct acre__snap_chunk *chunks = pool->chunks.items;
    const struct acre__snap_piece *pieces = pool->pieces.items;
    const struct acre__snap_block *blocks = pool->blocks.items;
    fprintf(out, "{\"id\":%" PRIu32 ",\"name\":", pool->id);
    put_text(out, pool->name);
    fprintf(out,
            ",\"device\":\"%s\",\"kind\":\"%s\",\"held_bytes\":%" PRIu64 ",\"used_bytes\":%" PRIu64
            ",\"pending_bytes\":%" PRIu64 ",\"refused\":%" PRIu64,
            pool->device, acre__pool_kind_name(pool->kind), pool->held, pool->used, pool->pending,
            pool->refused);
    fputs(",\n\"regions\":[", out);
    for (size_t i = 0; i < pool->regions.count; i++) {
        fputs(separator(i), out);
        put_at(out, regions[i].at, regions[i].bytes);
        fprintf(out, ",\"of\":\"%s\"}", regions[i].is_small ? "slabs" : "blocks");
    }
    fputs("],\n\"chunks\":[", out);
    for (size_t i = 0; i < pool->chunks.count; i++) {
        fputs(separator(i), out);
        put_at(out, chunks[i].at, chunks[i].bytes);
        fputs(chunks[i].is_ghost ? ",\"is_ghost\":true}" : "}", out);
    }
    fputs("],\n\"pieces\":[", out);
    for (size_t i = 0; i < pool->pieces.count; i++) {
        fputs(separator(i), out);
        put_piece(out, &pieces[i]);
    }
    fputs("],\n\"blocks\":[", out);
    for (size_t i = 0; i < pool->blocks.count; i++) {
        fputs(separator(i), out);
        put_block(out, &blocks[i], now_ns);
    }
    fputs("]}", out);
}

/* ---- the rest ---- */

static void put_object(FILE *out, const struct acre__snap_object *object) {
    static const char *const owners[] = {"mem",  "program", "vec",  "import",
                                         "pool", "heap",    "plan", "range"};
    put_at(out, object->at, object->bytes);
    fprintf(out, ",\"device\":\"%s\",\"kind\":\"%s\",\"of\":\"%s\"}", object->device,
            acre__pool_kind_name(object->kind), owners[object->owner]);
}

static void put_stack(FILE *out, uint32_t stack) {
    uintptr_t frames[ACRE__STACK_MOST];
    char text[ACRE__FRAME_TEXT];
    unsigned count = acre__stack_callers(stack, frames);
    fprintf(out, "{\"id\":%" PRIu32 ",\"frames\":[", stack);
    for (unsigned i = 0; i < count; i++) {
        acre__symbol_text(frames[i], text, sizeof text);
        fputs(i ? "," : "", out);
        put_text(out, text);
    }
    fputs("]}", out);
}

static int stack_order(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Writes every stack that a block names, once. Returns 0 if out of host memory. */
static int put_stacks(FILE *out, const struct acre__snapshot *snapshot) {
    const struct acre__snap_pool *pools = snapshot->pools.items;
    size_t most = 0, count = 0;
    for (size_t i = 0; i < snapshot->pools.count; i++)
        most += pools[i].blocks.count;
    uint32_t *stacks = malloc((most + 1) * sizeof *stacks);
    if (!stacks)
        return 0;
    for (size_t i = 0; i < snapshot->pools.count; i++) {
        const struct acre__snap_block *blocks = pools[i].blocks.items;
        for (size_t k = 0; k < pools[i].blocks.count; k++)
            if (blocks[k].stack)
                stacks[count++] = blocks[k].stack;
    }
    qsort(stacks, count, sizeof *stacks, stack_order);
    for (size_t i = 0, put = 0; i < count; i++) {
        if (i && stacks[i] == stacks[i - 1])
            continue;
        fputs(separator(put++), out);
        put_stack(out, stacks[i]);
    }
    free(stacks);
    return 1;
}

static void put_head(FILE *out) {
    struct timespec now;
    struct tm parts;
    char text[40] = "", program[SNAP_PATH] = "";
    clock_gettime(CLOCK_REALTIME, &now);
    if (gmtime_r(&now.tv_sec, &parts))
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    fprintf(out,
            "{\"schema\":\"acre-snapshot/1\",\"version\":\"%s\",\"time\":\"%s\",\"process\":%ld"
            ",\"program\":",
            acre_version(), text, (long)getpid());
    put_text(out, program);
}

static int put_snapshot(FILE *out, const struct acre__snapshot *snapshot) {
    const struct acre__snap_pool *pools = snapshot->pools.items;
    const struct acre__snap_object *objects = snapshot->objects.items;
    put_head(out);
    fputs(",\n\"pools\":[", out);
    for (size_t i = 0; i < snapshot->pools.count; i++) {
        fputs(separator(i), out);
        put_pool(out, &pools[i], snapshot->now_ns);
    }
    fputs("],\n\"objects\":[", out);
    for (size_t i = 0; i < snapshot->objects.count; i++) {
        fputs(separator(i), out);
        put_object(out, &objects[i]);
    }
    fputs("],\n\"stacks\":[", out);
    int is_whole = put_stacks(out, snapshot);
    fputs("]}\n", out);
    return is_whole;
}

/* ---- files ---- */

acre_status acre__snapshot_write(const acre_device *dev, int fd) {
    struct acre__snapshot snapshot;
    acre_status status = acre__snapshot_collect(&snapshot, dev);
    int own = status ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    FILE *out = own >= 0 ? fdopen(own, "w") : NULL;
    if (!status && !out) {
        status = acre__fail(ACRE_E_SYSTEM, "cannot write the snapshot: %s", strerror(errno));
        if (own >= 0)
            close(own);
    }
    if (out) {
        if (acre__stacks_are_on())
            acre__symbols_use_lines();
        int is_whole = put_snapshot(out, &snapshot), is_bad = ferror(out);
        if (fclose(out) || is_bad)
            status = acre__fail(ACRE_E_SYSTEM, "cannot write the snapshot: %s", strerror(errno));
        else if (!is_whole)
            status = acre__fail(ACRE_E_HOST_MEMORY, "no host memory for a snapshot");
    }
    acre__snapshot_drop(&snapshot);
    return status;
}

/* Writes a file beside the path, and renames it once it is complete. */
static acre_status snapshot_file(const acre_device *dev, const char *path) {
    char part[SNAP_PATH];
    int length = snprintf(part, sizeof part, "%s.XXXXXX", path);
    if (length < 0 || (size_t)length >= sizeof part)
        return acre__fail(ACRE_E_INVALID, "the path of the snapshot is too long");
    int fd = mkostemp(part, O_CLOEXEC); /* for the user alone, under a name that nobody can guess */
    if (fd < 0)
        return acre__fail(ACRE_E_SYSTEM, "cannot create %.200s: %s", part, strerror(errno));
    acre_status status = acre__snapshot_write(dev, fd);
    if (close(fd) && !status)
        status = acre__fail(ACRE_E_SYSTEM, "cannot write %.200s: %s", part, strerror(errno));
    if (!status && rename(part, path))
        status = acre__fail(ACRE_E_SYSTEM, "cannot create %.200s: %s", path, strerror(errno));
    if (status)
        (void)unlink(part);
    return status;
}

static acre_status snapshot(const acre_device *dev, const char *path) {
    acre_status status = dev ? acre__device_enter_books(dev) : acre__enter();
    if (status)
        return status;
    if (!path || !*path)
        return acre__fail(path ? ACRE_E_INVALID : ACRE_E_NULL, "no path for the snapshot");
    return snapshot_file(dev, path);
}

acre_status acre_snapshot(acre_device *device, const char *path) {
    return acre__in_call(snapshot(device, path), "acre_snapshot");
}

/* ---- for other programs ---- */

static acre_status snapshot_answer(int out, const char *arguments) {
    (void)arguments;
    return acre__snapshot_write(NULL, out);
}

__attribute__((constructor)) static void snapshot_begin(void) {
    acre__control_add("snapshot", snapshot_answer);
}

/* ---- out of memory ---- */

void acre__snapshot_on_oom(const acre_device *dev) {
    static _Atomic uint32_t written;
    const char *folder = acre__config_string(ACRE__CONFIG_SNAPSHOT_ON_OOM);
    char path[SNAP_PATH];
    uint32_t number = folder ? atomic_fetch_add_explicit(&written, 1, memory_order_relaxed) : 0;
    if (!folder || number >= SNAP_ON_OOM)
        return;
    int length = snprintf(path, sizeof path, "%s/acre-%ld-%" PRIu32 ".snapshot.json", folder,
                          (long)getpid(), number + 1);
    if (length > 0 && (size_t)length < sizeof path && snapshot_file(dev, path) == ACRE_OK)
        acre__log(ACRE_LOG_WARN, "pool", "out of memory: snapshot written to %.200s", path);
    else
        acre__log(ACRE_LOG_WARN, "pool", "cannot write a snapshot to %.200s: %.200s", folder,
                  acre_last_detail());
}
