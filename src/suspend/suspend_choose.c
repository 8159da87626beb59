/* Chooses what leaves the device: see suspend.h.
 *
 * Blocks of pools are collected under the pools' locks before the move, because a thread that holds
 * such a lock may wait for the move to end. Blocks can only be freed in between: contents of a
 * freed block are kept in vain. */
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/options.h"
#include "base/status.h"
#include "pool/pool_suspend.h"
#include "pool/pool_tag.h"
#include "space/book.h"
#include "space/mapped.h"
#include "suspend/suspend.h"

/* Between two blocks up to this many bytes, or a part of what is before them, are kept too: one
 * copy is cheaper than two. */
enum { GAP_BYTES = 4096, GAP_PART = 128 };

/* Memory outside pools, or all memory of a pool's region. */
struct object {
    uint64_t at, bytes;
    enum acre__owned_by owner;
    const acre_pool *pool; /* of a region, or of a spillable block */
    const void *mapped_by; /* `owner` of its mappings */
};

/* ---- lists ---- */

static void list_add(struct acre__chosen *chosen, void **list, size_t *count, size_t *room,
                     const void *item, size_t bytes) {
    if (*count == *room) {
        size_t more = *room ? 2 * *room : 64;
        void *moved = realloc(*list, more * bytes);
        if (!moved) {
            chosen->is_short = 1;
            return;
        }
        *list = moved;
        *room = more;
    }
    memcpy((char *)*list + (*count)++ * bytes, item, bytes);
}

static int live_compare(const void *a, const void *b) {
    const struct acre__pool_live *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

static acre_status choose_short(void) {
    return acre__fail(ACRE_E_HOST_MEMORY, "no memory for the list of blocks to suspend");
}

/* ---- options ---- */

static acre_status rule_check(const acre_suspend_rule *rule) {
    if (rule->how > ACRE_SUSPEND_STAY)
        return acre__fail(ACRE_E_INVALID, "acre_suspend_rule: how is %d", (int)rule->how);
    if (rule->is_unchanged > 1)
        return acre__fail(ACRE_E_INVALID, "acre_suspend_rule: is_unchanged is %u",
                          (unsigned)rule->is_unchanged);
    return ACRE_OK;
}

static acre_status options_check(const struct acre__chosen *chosen) {
    const acre_suspend_options *options = chosen->options;
    int needs_folder = options->how == ACRE_SUSPEND_FILE;
    if (options->how > ACRE_SUSPEND_STAY ||
        options->flags & ~(uint32_t)(ACRE_SUSPEND_WAIT | ACRE_SUSPEND_RETAIN))
        return acre__fail(ACRE_E_INVALID, "acre_suspend_options: how %d, flags 0x%x",
                          (int)options->how, (unsigned)options->flags);
    for (size_t i = 0; i < options->rule_count; i++) {
        acre_status status = rule_check(&chosen->rules[i]);
        if (status)
            return status;
        needs_folder |= chosen->rules[i].how == ACRE_SUSPEND_FILE;
    }
    if (needs_folder && !options->folder)
        return acre__fail(ACRE_E_INVALID, "acre_suspend_options: ACRE_SUSPEND_FILE needs a folder");
    return ACRE_OK;
}

acre_status acre__choose_begin(struct acre__chosen *chosen, acre_device *dev,
                               const acre_suspend_options *options) {
    *chosen = (struct acre__chosen){.options = options, .dev = dev};
    chosen->away.dev = dev;
    chosen->info.struct_size = sizeof chosen->info;
    if (options->rule_count && !options->rules)
        return acre__fail(ACRE_E_NULL, "acre_suspend_options: rules is NULL");
    chosen->rules = calloc(options->rule_count + 1, sizeof *chosen->rules);
    if (!chosen->rules)
        return choose_short();
    const char *at = (const char *)options->rules;
    for (size_t i = 0; i < options->rule_count; i++) {
        acre_status status =
            acre__options_in(&chosen->rules[i], sizeof chosen->rules[i], at, "acre_suspend_rule");
        if (status)
            return status;
        at += ((const acre_suspend_rule *)(const void *)at)->struct_size;
    }
    return options_check(chosen);
}

void acre__choose_end(struct acre__chosen *chosen) {
    free(chosen->rules);
    free(chosen->away.mappings);
    free(chosen->lives);
    free(chosen->objects);
    acre__spans_free(&chosen->spans);
}

/* ---- rules ---- */

struct choice {
    acre_suspend_how how;
    int is_unchanged;
};

/* 1 if `tag` is `rule` or below it. */
static int tag_is_below(const char *tag, const char *rule) {
    size_t length = strlen(rule);
    return strncmp(tag, rule, length) == 0 && (!tag[length] || tag[length] == '/');
}

/* What the rules say about memory: `tag` is NULL or that of a block, `pool` NULL or its pool. */
static struct choice choose(const struct acre__chosen *chosen, const char *tag,
                            const acre_pool *pool, uint64_t at, uint64_t bytes) {
    for (size_t i = 0; i < chosen->options->rule_count; i++) {
        const acre_suspend_rule *rule = &chosen->rules[i];
        if ((rule->tag && (!tag || !tag_is_below(tag, rule->tag))) ||
            (rule->pool && rule->pool != pool) ||
            (rule->object &&
             ((uintptr_t)rule->object < at || (uintptr_t)rule->object - at >= bytes)))
            continue;
        return (struct choice){rule->how, rule->is_unchanged != 0};
    }
    return (struct choice){chosen->options->how, 0};
}

static struct choice choose_live(const struct acre__chosen *chosen,
                                 const struct acre__pool_live *live) {
    struct choice choice =
        choose(chosen, acre__tag_path(live->tag), live->pool, live->at, live->bytes);
    if (live->pool->flags & ACRE_POOL_DEBUG) { /* it writes red zones and poison beside blocks */
        choice.how = choice.how == ACRE_SUSPEND_DROP ? ACRE_SUSPEND_KEEP : choice.how;
        choice.is_unchanged = 0;
    }
    return choice;
}

/* ---- what there is ---- */

static void live_add(void *user, const struct acre__pool_live *live) {
    struct acre__chosen *chosen = user;
    list_add(chosen, &chosen->lives, &chosen->live_count, &chosen->live_room, live, sizeof *live);
}

acre_status acre__choose_blocks(struct acre__chosen *chosen) {
    acre__pools_visit_live(chosen->dev, live_add, chosen);
    if (chosen->is_short)
        return choose_short();
    if (chosen->live_count > 1)
        qsort(chosen->lives, chosen->live_count, sizeof(struct acre__pool_live), live_compare);
    return ACRE_OK;
}

/* Called by rising address. */
static void object_add(void *user, const struct acre__block *block) {
    struct acre__chosen *chosen = user;
    struct object object = {block->node.key, block->bytes, block->owner, block->pool,
                            block->extent ? (const void *)block->extent : block};
    if (block->source == ACRE__FROM_SPACE || block->owner == ACRE__OWNED_BY_POOL ||
        block->owner == ACRE__OWNED_BY_RANGE)
        list_add(chosen, &chosen->objects, &chosen->object_count, &chosen->object_room, &object,
                 sizeof object);
}

/* The object that a mapping belongs to: the last one that begins at or before it. NULL for memory
 * of an object that a thread is creating, and that is not in the book yet. */
static const struct object *object_at(const struct acre__chosen *chosen,
                                      const struct acre__mapping *mapping) {
    const struct object *objects = chosen->objects;
    size_t low = 0, high = chosen->object_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (objects[middle].at <= mapping->at)
            low = middle + 1;
        else
            high = middle;
    }
    return low && objects[low - 1].mapped_by == mapping->owner ? &objects[low - 1] : NULL;
}

/* The first live block that ends behind an address; NULL if there is none. */
static const struct acre__pool_live *live_from(const struct acre__chosen *chosen, uint64_t at) {
    const struct acre__pool_live *lives = chosen->lives;
    size_t low = 0, high = chosen->live_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (lives[middle].at + lives[middle].bytes <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low < chosen->live_count ? &lives[low] : NULL;
}

static const struct acre__pool_live *live_next(const struct acre__chosen *chosen,
                                               const struct acre__pool_live *live) {
    const struct acre__pool_live *end =
        (const struct acre__pool_live *)chosen->lives + chosen->live_count;
    return live + 1 < end ? live + 1 : NULL;
}

static uint64_t end_of(const struct acre__mapping *mapping) {
    return mapping->at + mapping->chunk->bytes;
}

static int is_of_pool(const struct object *object) {
    return object->owner == ACRE__OWNED_BY_POOL;
}

/* What happens to an object outside the arenas of pools. A heap's records are among its contents.
 */
static struct choice choose_object(const struct acre__chosen *chosen, const struct object *object) {
    struct choice choice =
        choose(chosen, NULL, object->pool, object->at, object->bytes ? object->bytes : 1);
    if (object->owner == ACRE__OWNED_BY_HEAP && choice.how == ACRE_SUSPEND_DROP)
        choice.how = ACRE_SUSPEND_KEEP;
    return choice;
}

/* 1 if the memory of a mapping leaves: that of a pool if no block in it stays. */
static int mapping_leaves(const struct acre__chosen *chosen, const struct acre__mapping *mapping) {
    const struct object *object = object_at(chosen, mapping);
    if (!object || !(mapping->readers | mapping->writers))
        return 0; /* it is being created */
    if (!is_of_pool(object))
        return choose_object(chosen, object).how != ACRE_SUSPEND_STAY;
    const struct acre__pool_live *live = live_from(chosen, mapping->at);
    if (!live || live->at >= end_of(mapping))
        return choose(chosen, NULL, object->pool, mapping->at, mapping->chunk->bytes).how !=
               ACRE_SUSPEND_STAY;
    for (; live && live->at < end_of(mapping); live = live_next(chosen, live))
        if (choose_live(chosen, live).how == ACRE_SUSPEND_STAY)
            return 0;
    return 1;
}

/* ---- contents ---- */

/* Adds the part of [at, end) that is in the mapping, or extends the last span. */
static void span_note(struct acre__chosen *chosen, const struct acre__mapping *mapping, uint64_t at,
                      uint64_t end, struct choice choice) {
    struct acre__spans *spans = &chosen->spans;
    at = at < mapping->at ? mapping->at : at;
    end = end > end_of(mapping) ? end_of(mapping) : end;
    if (at >= end)
        return;
    if (choice.how == ACRE_SUSPEND_DROP) {
        chosen->info.dropped_bytes += end - at;
        return;
    }
    chosen->info.kept_bytes += end - at;
    struct acre__span span = {.at = at,
                              .bytes = end - at,
                              .live_bytes = end - at,
                              .chunk = mapping->chunk->id,
                              .is_file = choice.how == ACRE_SUSPEND_FILE,
                              .is_unchanged = (uint8_t)choice.is_unchanged};
    struct acre__span *last = spans->count ? &spans->list[spans->count - 1] : NULL;
    if (last && last->chunk == span.chunk && last->at >= mapping->at &&
        last->is_file == span.is_file && last->is_unchanged == span.is_unchanged) {
        uint64_t gap = at - (last->at + last->bytes);
        if (gap <= GAP_BYTES || gap <= last->bytes / GAP_PART) {
            last->bytes = end - last->at;
            last->live_bytes += end - at;
            return;
        }
    }
    if (!acre__span_add(spans, &span))
        chosen->is_short = 1;
}

static void mapping_spans(struct acre__chosen *chosen, const struct acre__mapping *mapping) {
    const struct object *object = object_at(chosen, mapping);
    if (is_of_pool(object)) {
        const struct acre__pool_live *live = live_from(chosen, mapping->at);
        for (; live && live->at < end_of(mapping); live = live_next(chosen, live))
            span_note(chosen, mapping, live->at, live->at + live->bytes, choose_live(chosen, live));
        return;
    }
    struct choice choice = choose_object(chosen, object);
    acre_mem_info info;
    uint64_t at = mapping->at, end = end_of(mapping);
    if (object->owner == ACRE__OWNED_BY_RANGE) {
        if (acre__book_find((void *)(uintptr_t)at, &info) != ACRE__FOUND_LIVE)
            return; /* no committed piece */
    } else {
        at = object->at;
        end = object->at + object->bytes;
    }
    span_note(chosen, mapping, at, end, choice);
}

/* ---- mappings ---- */

/* All mappings of device memory that are not away. */
static acre_status mappings_list(struct acre__chosen *chosen) {
    struct acre__away *away = &chosen->away;
    size_t count = 0;
    struct acre__mapping *mapping = NULL;
    while ((mapping = acre__mapped_next(chosen->dev, mapping)))
        count++;
    away->mappings = calloc(count + 1, sizeof(struct acre__mapping *));
    if (!away->mappings)
        return choose_short();
    away->count = 0;
    while ((mapping = acre__mapped_next(chosen->dev, mapping)))
        if (!mapping->is_away && !(mapping->chunk->flags & ACRE__CHUNK_HOST))
            away->mappings[away->count++] = mapping;
    return ACRE_OK;
}

/* Other processes would keep the memory that leaves, and lose sight of what comes back. */
static acre_status shared_refuse(const struct acre__mapping *mapping) {
    return acre__fail(ACRE_E_BUSY,
                      "%zu bytes at %p are, or were, shared with other processes; free them, or "
                      "let them stay by a rule",
                      mapping->chunk->bytes, (void *)(uintptr_t)mapping->at);
}

static void marks_clear(const struct acre__away *away) {
    for (size_t i = 0; i < away->count; i++)
        away->mappings[i]->chunk->is_staying = 0;
}

/* Keeps the mappings in the list whose memory leaves. Memory that is mapped twice leaves if nothing
 * in either mapping stays. */
static acre_status mappings_choose(struct acre__chosen *chosen) {
    struct acre__away *away = &chosen->away;
    size_t kept = 0;
    marks_clear(away);
    for (size_t i = 0; i < away->count; i++)
        if (!mapping_leaves(chosen, away->mappings[i]))
            away->mappings[i]->chunk->is_staying = 1;
    for (size_t i = 0; i < away->count; i++) {
        struct acre__mapping *mapping = away->mappings[i];
        if (mapping->chunk->is_staying)
            chosen->info.stayed_bytes += mapping->chunk->bytes;
        else if (acre__load(&mapping->chunk->is_shared, memory_order_relaxed))
            return shared_refuse(mapping);
        else
            away->mappings[kept++] = mapping;
    }
    away->count = kept;
    return ACRE_OK;
}

acre_status acre__choose_mappings(struct acre__chosen *chosen) {
    acre__book_visit(chosen->dev, object_add, chosen);
    acre_status status = chosen->is_short ? choose_short() : mappings_list(chosen);
    if (status == ACRE_OK)
        status = mappings_choose(chosen);
    for (size_t i = 0; i < chosen->away.count && status == ACRE_OK; i++)
        mapping_spans(chosen, chosen->away.mappings[i]);
    return status == ACRE_OK && chosen->is_short ? choose_short() : status;
}
