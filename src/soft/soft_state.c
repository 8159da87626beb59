/* The soft driver's state and lookups in it: the device, range, mapping, segment, stream, graph or
 * context of an address, an id or a handle. Also helpers for every file: ids, random numbers of the
 * seed, reports of errors, and losing a context.
 *
 * This is the lowest file of the soft driver: it calls none of the others. acre__soft_config_get
 * acre__soft_reports and acre__soft_why_lost take acre__soft.lock. acre__soft_random is for seeded
 * runs, where one thread runs at a time. All other functions are called with the lock held. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/run.h"
#include "base/log.h"
#include "soft/soft.h"
#include "soft/soft_pool_types.h"
#include "soft/soft_state.h"

struct soft_state acre__soft = {
    .lock = ACRE__LOCK_INIT("soft driver", ACRE__RANK_SOFT),
    .work = ACRE__COND_INIT,
    .done = ACRE__COND_INIT,
};

struct acre__soft_config acre__soft_config_get(void) {
    acre__lock_take(&acre__soft.lock);
    struct acre__soft_config config = acre__soft.config;
    acre__lock_give(&acre__soft.lock);
    return config;
}

uint64_t acre__soft_next_id(void) {
    return ++acre__soft.last_id;
}

/* splitmix64: every seed, 0 included, gives a good sequence. */
uint64_t acre__soft_random(void) {
    uint64_t x = (acre__soft.random += 0x9e3779b97f4a7c15u);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

void acre__soft_lose(struct CUctx_st *ctx, CUresult code) {
    if (!ctx->lost) {
        ctx->lost = code;
        memcpy(ctx->why, acre__soft.latest, sizeof ctx->why);
        acre__log(ACRE_LOG_ERROR, "soft", "device %d is lost: %s", ctx->device,
                  acre__driver_error_name(code));
    }
    acre__cond_wake(&acre__soft.done);
}

/* ---- lookups ---- */

struct soft_device *acre__soft_device_at(int ordinal) {
    return ordinal >= 0 && (uint32_t)ordinal < acre__soft.config.devices
               ? &acre__soft.devices[ordinal]
               : NULL;
}

int acre__soft_ctx_is_known(const struct CUctx_st *ctx) {
    const struct CUctx_st *other = acre__soft.contexts;
    while (other && other != ctx)
        other = other->next;
    return other && soft_ctx_is_alive(other);
}

struct soft_stream *acre__soft_stream_by_id(uint64_t id) {
    for (const struct CUctx_st *ctx = acre__soft.contexts; ctx; ctx = ctx->next)
        for (struct soft_stream *stream = ctx->streams; stream; stream = stream->next)
            if (stream->id == id)
                return stream;
    return NULL;
}

struct soft_range *acre__soft_range_find(uint64_t address) {
    struct soft_range *range =
        acre__tree_entry(acre__tree_floor(&acre__soft.ranges, address), struct soft_range, node);
    return range && address - range->node.key < range->bytes ? range : NULL;
}

struct soft_mapping *acre__soft_mapping_find(uint64_t address) {
    struct soft_mapping *mapping = acre__tree_entry(acre__tree_floor(&acre__soft.mappings, address),
                                                    struct soft_mapping, node);
    return mapping && address - mapping->node.key < mapping->bytes ? mapping : NULL;
}

struct soft_segment *acre__soft_segment_find(uint64_t address) {
    struct soft_segment *segment = acre__tree_entry(acre__tree_floor(&acre__soft.segments, address),
                                                    struct soft_segment, node);
    return segment && address - segment->node.key < segment->bytes ? segment : NULL;
}

struct CUgraph_st *acre__soft_graph_find(CUgraph graph) {
    return graph && acre__tree_find(&acre__soft.graphs, (uint64_t)(uintptr_t)graph) ? graph : NULL;
}

/* ---- reports ---- */

void acre__soft_report(const char *format, ...) {
    char line[sizeof acre__soft.report];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    memcpy(acre__soft.latest, line, sizeof line);
    if (!acre__soft.report_count++)
        memcpy(acre__soft.report, line, sizeof line);
    acre__log(ACRE_LOG_ERROR, "soft", "%s", line);
    acre__run_wrong(line);
}

static void report_copy(const char *report, char *text, size_t text_bytes) {
    size_t length = strlen(report);
    if (length >= text_bytes)
        length = text_bytes - 1;
    memcpy(text, report, length);
    text[length] = 0;
}

size_t acre__soft_reports(char *text, size_t text_bytes) {
    acre__lock_take(&acre__soft.lock);
    size_t count = acre__soft.report_count;
    if (text && text_bytes)
        report_copy(acre__soft.report, text, text_bytes);
    acre__lock_give(&acre__soft.lock);
    return count;
}

int acre__soft_why_lost(CUdevice device, char *text, size_t text_bytes) {
    text[0] = 0;
    acre__lock_take(&acre__soft.lock);
    for (const struct CUctx_st *ctx = acre__soft.contexts; ctx && !text[0]; ctx = ctx->next)
        if (ctx->device == device && ctx->lost)
            report_copy(ctx->why, text, text_bytes);
    acre__lock_give(&acre__soft.lock);
    return text[0] != 0;
}
