/* Formats a report as text and as JSON, on request, from the numbers that pool_report.c collected.
 * The text has bytes in full, so that they add up, and in larger units beside them. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/stack.h"
#include "pool/pool_report.h"
#include "pool/pool_watch.h"

/* Writes while there is room, and counts the bytes that do not fit. */
struct out {
    char *buffer;
    size_t size, length;
};

static void put(struct out *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(struct out *out, const char *format, ...) {
    size_t left = out->length < out->size ? out->size - out->length : 0;
    va_list args;
    va_start(args, format);
    int length = vsnprintf(left ? out->buffer + out->length : NULL, left, format, args);
    va_end(args);
    out->length += length > 0 ? (size_t)length : 0;
}

/* ---- text ---- */

struct human {
    char text[24];
};

static struct human human(uint64_t bytes) {
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    struct human result;
    double value = (double)bytes;
    int unit = 0;
    for (; value >= 1024 && unit < 4; unit++)
        value /= 1024;
    snprintf(result.text, sizeof result.text, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return result;
}

static void put_row(struct out *out, uint64_t bytes, const char *what) {
    put(out, "  %16" PRIu64 "  %11s  %s\n", bytes, human(bytes).text, what);
}

/* Writes a row if it has any bytes. */
static void put_some(struct out *out, uint64_t bytes, const char *what) {
    if (bytes)
        put_row(out, bytes, what);
}

enum by { BY_TAG, BY_SIZE, BY_STACK };

static void put_blocks(struct out *out, const struct acre__oom_list *list, enum by by) {
    static const char *const others[] = {"tags", "sizes", "calls"};
    char what[ACRE__FRAME_TEXT + 80], where[ACRE__FRAME_TEXT];
    for (int i = 0; i < ACRE__OOM_TOP && list->top[i].bytes; i++) {
        const struct acre__oom_item *item = &list->top[i];
        const char *plural = item->count == 1 ? "" : "s";
        if (by == BY_TAG)
            snprintf(what, sizeof what, "%.100s, %" PRIu64 " block%s",
                     item->key ? acre__tag_path((uint32_t)item->key) : "without a tag", item->count,
                     plural);
        else if (by == BY_SIZE)
            snprintf(what, sizeof what, "blocks of up to %s: %" PRIu64, human(item->key).text,
                     item->count);
        else {
            acre__stack_brief((uint32_t)item->key, where);
            snprintf(what, sizeof what, "%s, %" PRIu64 " block%s", where, item->count, plural);
        }
        put_row(out, item->bytes, what);
    }
    if (list->rest.key) {
        snprintf(what, sizeof what, "%" PRIu64 " more %s, %" PRIu64 " blocks", list->rest.key,
                 others[by], list->rest.count);
        put_row(out, list->rest.bytes, what);
    }
}

static void stream_name(uint64_t stream, char *name, size_t size) {
    if (stream == ACRE__OOM_EVENT)
        snprintf(name, size, "an event or several streams");
    else if (!stream)
        snprintf(name, size, "the default stream");
    else
        snprintf(name, size, "stream 0x%" PRIx64, stream);
}

static void put_wish(struct out *out, const struct acre__oom *oom) {
    char stream[48];
    stream_name(oom->stream, stream, sizeof stream);
    put(out, "acre: out of memory for a block of %" PRIu64 " bytes (%s)\n", oom->asked,
        human(oom->asked).text);
    put(out, "  requested on %s from the pool 0x%" PRIx64 ", %s memory of %s", stream, oom->pool,
        acre__pool_kind_name(oom->kind), oom->device);
    if (oom->alignment > ACRE__GRAIN)
        put(out, ", aligned to %s", human(oom->alignment).text);
    if (oom->tag)
        put(out, ", with the tag %s", acre__tag_path(oom->tag));
    put(out, "\n  failed with %s: %s\n", acre_status_name(oom->status), oom->said.line);
    if (oom->stack) {
        char where[ACRE__FRAME_TEXT];
        acre__stack_brief(oom->stack, where);
        put(out, "  requested by %s\n", where);
    }
}

static void put_card(struct out *out, const struct acre__oom *oom) {
    put(out, "\nMemory of %s\n", oom->device);
    put_row(out, oom->held_here, "this pool");
    put_row(out, oom->held_there, "other pools of this process");
    put_row(out, oom->acre_bytes, "other memory of acre: vecs, blocks, cached chunks");
    put_row(out, oom->outside, "outside acre: other processes and libraries, the driver itself");
    put_row(out, oom->free, "free");
    put_row(out, oom->total, "total");
    if (oom->device_limit)
        put(out, "  acre holds %s of its limit of %s (acre_device_set_limits)\n",
            human(oom->device_held).text, human(oom->device_limit).text);
    if (oom->device_margin)
        put(out, "  %s of the card stay free (acre_device_set_limits)\n",
            human(oom->device_margin).text);
    for (int i = 0; i < ACRE__OOM_TOP && oom->pools.top[i].bytes; i++)
        put(out, "  the pool 0x%" PRIx64 " holds %s, %s of it free\n", oom->pools.top[i].key,
            human(oom->pools.top[i].bytes).text, human(oom->pools.top[i].count).text);
}

/* Lists free memory, and why it could not serve the request. */
static void put_free(struct out *out, const struct acre__oom *oom) {
    char what[160], stream[48];
    stream_name(oom->streams.top[0].key, stream, sizeof stream);
    put_some(out, oom->cached, "free, but in thread caches");
    put_some(out, oom->quarantined, "freed, but in quarantine (ACRE_POOL_DEBUG)");
    put_some(out, oom->graphs, "free, but kept for graphs and captures that share their memory");
    snprintf(what, sizeof what, "freed, but work of other streams may still use it, mostly %s",
             stream);
    put_some(out, oom->pending, what);
    put_some(out, oom->own,
             oom->is_there ? "freed on this stream, but above the limit of the device"
                           : "freed on this stream, but of other sizes or in pieces too small");
    snprintf(what, sizeof what, "free, but in holes that are too small: the largest has %s%s",
             human(oom->largest_hole).text,
             oom->alignment > ACRE__PIECE_GRAIN ? " from an aligned address on" : "");
    put_some(out, oom->holes,
             oom->is_there ? "free, but in chunks with live blocks, above the limit of the device"
                           : what);
    put_some(out, oom->slots, "free slots for small blocks, in slabs that are still in use");
    put_some(out, oom->ends, "unused at the ends of slabs");
    put_some(out, oom->spillable,
             "spillable, but in use between acre_bring and acre_bring_end, or too little");
    put_some(out, oom->spilled, "spillable, and moved to host memory already");
}

static void put_pool(struct out *out, const struct acre__oom *oom) {
    char what[96];
    put(out, "\nMemory of this pool%s\n", oom->kind == ACRE_KIND_DEVICE ? "" : ", in host memory");
    snprintf(what, sizeof what, "allocated, in %" PRIu64 " blocks", oom->live_blocks);
    put_row(out, oom->live, what);
    put_free(out, oom);
    put_row(out, oom->held, "total");
    if (oom->soft_limit_bytes)
        put_row(out, oom->soft_limit_bytes, "its soft limit");
    if (oom->limit_bytes)
        put_row(out, oom->limit_bytes, "its limit");
    if (!oom->live)
        return;
    put(out, "\nAllocated, by tag\n");
    put_blocks(out, &oom->tags, BY_TAG);
    put(out, "\nAllocated, by size\n");
    put_blocks(out, &oom->sizes, BY_SIZE);
    if (oom->stacks.top[0].bytes) {
        put(out, "\nAllocated, by call (bytes as requested)\n");
        put_blocks(out, &oom->stacks, BY_STACK);
    }
}

static void put_step(struct out *out, const struct acre__oom *oom,
                     const struct acre__oom_step *step) {
    char stream[48];
    struct human size_text = human(step->bytes);
    const char *bytes = size_text.text;
    switch (step->kind) {
    case ACRE__STEP_LESS:
        put(out, "request less: %s %s",
            oom->kind == ACRE_KIND_PINNED || oom->kind == ACRE_KIND_MAPPED ? "a pool serves at most"
            : oom->device_limit && step->bytes == oom->device_limit ? "the limit of the device is"
                                                                    : "the card has",
            bytes);
        return;
    case ACRE__STEP_WAIT:
        stream_name(step->key, stream, sizeof stream);
        put(out, "wait for %s: %s would then be contiguous", stream, bytes);
        return;
    case ACRE__STEP_TRIM:
        put(out, "wait for the work of the pool 0x%" PRIx64 " and trim it; %s of it are free",
            step->key, bytes);
        return;
    case ACRE__STEP_FREE:
        if (oom->limit_tag || oom->is_limited)
            put(out, "free %s more %s%.80s", bytes,
                oom->limit_tag ? "with the tag " : "of this pool", acre__tag_path(oom->limit_tag));
        else if (oom->is_over && !oom->is_there)
            put(out, "free all blocks in chunks of %s together", bytes);
        else /* an estimate: memory is released in whole chunks */
            put(out, "free about %s more of this pool, best contiguous", bytes);
        return;
    case ACRE__STEP_RAISE:
        put(out, "raise the %s limit to %" PRIu64 " bytes",
            oom->limit_tag ? "tag's" : "pool's hard", step->bytes);
        return;
    case ACRE__STEP_RAISE_DEVICE:
        put(out, "raise the limit of the device to %" PRIu64 " bytes", step->bytes);
        return;
    default:
        put(out,
            oom->short_of_limit && oom->short_of_limit == oom->short_of_all
                ? "free %s of other memory of acre on this device"
                : "free %s on the card, outside this pool",
            bytes);
    }
}

size_t acre__report_text(const struct acre__oom *oom, char *buffer, size_t size) {
    struct out out = {buffer, size, 0};
    put_wish(&out, oom);
    put_card(&out, oom);
    put_pool(&out, oom);
    put(&out, "\nWhat to do, the smallest step first\n");
    for (int i = 0; i < ACRE__OOM_STEPS && oom->steps[i].kind; i++) {
        put(&out, "  ");
        put_step(&out, oom, &oom->steps[i]);
        put(&out, "\n");
    }
    if (!oom->steps[0].kind)
        put(&out, "  retry: enough memory is free now\n");
    return out.length + 1;
}

/* ---- JSON ---- */

/* Writes a JSON string. A detail may contain any character. Names of tags and devices need no
 * escapes. */
static void put_string(struct out *out, const char *text) {
    put(out, "\"");
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            put(out, "\\%c", *text);
        else
            put(out, "%c", *text >= ' ' && *text <= '~' ? *text : '?');
    }
    put(out, "\"");
}

static void put_number(struct out *out, const char *name, uint64_t value) {
    put(out, ",\"%s\":%" PRIu64, name, value);
}

static void put_list(struct out *out, const struct acre__oom_list *list, const char *name,
                     void (*key)(struct out *out, uint64_t key), const char *count) {
    put(out, ",\"%s\":[", name);
    for (int i = 0; i < ACRE__OOM_TOP && list->top[i].bytes; i++) {
        put(out, "%s{", i ? "," : "");
        key(out, list->top[i].key);
        put_number(out, "bytes", list->top[i].bytes);
        put_number(out, count, list->top[i].count);
        put(out, "}");
    }
    put(out, "],\"%s_rest\":{\"count\":%" PRIu64, name, list->rest.key);
    put_number(out, "bytes", list->rest.bytes);
    put_number(out, count, list->rest.count);
    put(out, "}");
}

static void key_tag(struct out *out, uint64_t key) {
    put(out, "\"tag\":\"%s\"", acre__tag_path((uint32_t)key));
}

static void key_stack(struct out *out, uint64_t key) {
    char where[ACRE__FRAME_TEXT];
    acre__stack_where((uint32_t)key, where);
    put(out, "\"allocated_by\":");
    put_string(out, where);
}

static void key_size(struct out *out, uint64_t key) {
    put(out, "\"up_to_bytes\":%" PRIu64, key);
}

static void key_stream(struct out *out, uint64_t key) {
    if (key == ACRE__OOM_EVENT)
        put(out, "\"stream\":null");
    else
        put(out, "\"stream\":\"0x%" PRIx64 "\"", key);
}

static void key_pool(struct out *out, uint64_t key) {
    put(out, "\"pool\":\"0x%" PRIx64 "\"", key);
}

static void json_wish(struct out *out, const struct acre__oom *oom) {
    put(out,
        "{\"schema\":\"acre-oom/1\",\"status\":\"%s\",\"detail\":", acre_status_name(oom->status));
    put_string(out, oom->said.line);
    put(out, ",\"wanted\":{\"device\":\"%s\",\"kind\":\"%s\",", oom->device,
        acre__pool_kind_name(oom->kind));
    key_pool(out, oom->pool);
    put(out, ",");
    key_stream(out, oom->stream);
    put(out, ",");
    key_tag(out, oom->tag);
    put_number(out, "bytes", oom->wanted);
    put_number(out, "alignment", oom->alignment);
    put(out, "}");
}

struct figure {
    const char *name;
    uint64_t value;
};

/* Writes an object of figures, up to the one without a name. */
static void put_figures(struct out *out, const char *name, const struct figure *figures) {
    put(out, ",\"%s\":{", name);
    for (size_t i = 0; figures[i].name; i++)
        put(out, "%s\"%s\":%" PRIu64, i ? "," : "", figures[i].name, figures[i].value);
    put(out, "}");
}

static void json_card(struct out *out, const struct acre__oom *oom) {
    const struct figure figures[] = {
        {"total_bytes", oom->total},          {"free_bytes", oom->free},
        {"pool_bytes", oom->held_here},       {"other_pools_bytes", oom->held_there},
        {"acre_bytes", oom->acre_bytes},      {"outside_bytes", oom->outside},
        {"limit_bytes", oom->device_limit},   {"held_bytes", oom->device_held},
        {"margin_bytes", oom->device_margin}, {NULL, 0}};
    put_figures(out, "card", figures);
}

static void json_pool(struct out *out, const struct acre__oom *oom) {
    const struct figure figures[] = {{"held_bytes", oom->held},
                                     {"live_bytes", oom->live},
                                     {"live_blocks", oom->live_blocks},
                                     {"cached_bytes", oom->cached},
                                     {"quarantined_bytes", oom->quarantined},
                                     {"graph_bytes", oom->graphs},
                                     {"pending_bytes", oom->pending},
                                     {"own_stream_bytes", oom->own},
                                     {"hole_bytes", oom->holes},
                                     {"slot_bytes", oom->slots},
                                     {"slab_end_bytes", oom->ends},
                                     {"largest_hole_bytes", oom->largest_hole},
                                     {"largest_run_bytes", oom->largest_run},
                                     {"spillable_bytes", oom->spillable},
                                     {"spilled_bytes", oom->spilled},
                                     {"used_bytes", oom->used},
                                     {"soft_limit_bytes", oom->soft_limit_bytes},
                                     {"hard_limit_bytes", oom->limit_bytes},
                                     {NULL, 0}};
    put_figures(out, "pool", figures);
    if (!oom->limit_tag)
        return;
    put(out, ",\"tag_limit\":{");
    key_tag(out, oom->limit_tag);
    put_number(out, "used_bytes", oom->tag_used);
    put_number(out, "limit_bytes", oom->tag_limit);
    put(out, "}");
}

size_t acre__report_json(const struct acre__oom *oom, char *buffer, size_t size) {
    static const char *const names[] = {"none", "less",  "wait",         "trim",
                                        "free", "raise", "raise_device", "others"};
    struct out out = {buffer, size, 0};
    json_wish(&out, oom);
    json_card(&out, oom);
    json_pool(&out, oom);
    put_list(&out, &oom->tags, "live_by_tag", key_tag, "blocks");
    put_list(&out, &oom->sizes, "live_by_size", key_size, "blocks");
    if (oom->stacks.top[0].bytes)
        put_list(&out, &oom->stacks, "live_by_call", key_stack, "blocks");
    put_list(&out, &oom->streams, "pending_by_stream", key_stream, "batches");
    put_list(&out, &oom->pools, "other_pools", key_pool, "free_bytes");
    put(&out, ",\"steps\":[");
    for (int i = 0; i < ACRE__OOM_STEPS && oom->steps[i].kind; i++) {
        put(&out, "%s{\"do\":\"%s\",\"text\":\"", i ? "," : "", names[oom->steps[i].kind]);
        put_step(&out, oom, &oom->steps[i]);
        put(&out, "\"");
        put_number(&out, "bytes", oom->steps[i].bytes);
        put(&out, "}");
    }
    put(&out, "]}");
    return out.length + 1;
}
