/* Taking memory away and bringing it back: see away.h.
 *
 * A call for several adjacent mappings costs the driver less than one call each, so unmapping and
 * setting access work on runs. */
#include "space/away.h"

#include "base/log.h"
#include "base/status.h"
#include "device/device.h"
#include "space/mapped.h"
#include "space/steps.h"

static uint64_t mapping_end_of(const struct acre__mapping *mapping) {
    return mapping->at + mapping->chunk->bytes;
}

/* ---- runs ---- */

/* The end of the run of adjacent mappings that begins at index `first`. With `is_alike`, all have
 * the same access. */
static size_t run_end(const struct acre__away *away, size_t first, int is_alike) {
    struct acre__mapping **all = away->mappings;
    size_t end = first + 1;
    while (end < away->count && all[end]->at == mapping_end_of(all[end - 1]) &&
           all[end]->is_stuck == all[first]->is_stuck &&
           (!is_alike ||
            (all[end]->readers == all[first]->readers && all[end]->writers == all[first]->writers)))
        end++;
    return end;
}

static acre_status run_unmap(const struct acre__away *away, size_t first, size_t end) {
    uint64_t at = away->mappings[first]->at;
    size_t bytes = (size_t)(mapping_end_of(away->mappings[end - 1]) - at);
    acre_status status = acre__step_unmap(away->dev, at, bytes);
    return status ? acre__step_unmap(away->dev, at, bytes) : ACRE_OK;
}

/* Sets the access that the mappings of a run had. */
static acre_status run_access(const struct acre__away *away, size_t first, size_t end) {
    const struct acre__mapping *mapping = away->mappings[first];
    CUmemAccessDesc access[ACRE__DEVICE_SLOTS];
    size_t count = 0;
    for (int i = 0; i < ACRE__DEVICE_SLOTS; i++) {
        uint64_t bit = (uint64_t)1 << i;
        if ((mapping->readers | mapping->writers) & bit)
            access[count++] =
                (CUmemAccessDesc){{CU_MEM_LOCATION_TYPE_DEVICE, i},
                                  mapping->writers & bit ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                                         : CU_MEM_ACCESS_FLAGS_PROT_READ};
    }
    size_t bytes = (size_t)(mapping_end_of(away->mappings[end - 1]) - mapping->at);
    return count ? acre__step_access(away->dev, mapping->at, bytes, access, count) : ACRE_OK;
}

/* ---- mapping ---- */

static acre_status mapping_map(const struct acre__mapping *mapping) {
    const struct acre__chunk *chunk = mapping->chunk;
    return mapping->is_stuck ? ACRE_OK
                             : acre__step_map(chunk->dev, mapping->at, chunk->bytes, chunk->handle);
}

/* Unmaps the first `count` mappings that were just mapped. One that the driver refuses to unmap is
 * stuck: it keeps its memory until it is wanted again. */
static void mappings_undo(const struct acre__away *away, size_t count) {
    struct acre__said said;
    acre__said_keep(&said);
    for (size_t i = 0; i < count; i++) {
        struct acre__mapping *mapping = away->mappings[i];
        if (!mapping->is_stuck)
            mapping->is_stuck = run_unmap(away, i, i + 1) != ACRE_OK;
    }
    (void)acre__said_fail(ACRE_OK, &said);
}

/* Maps all and sets access. All or nothing. */
static acre_status mappings_map(const struct acre__away *away) {
    acre_status status = ACRE_OK;
    size_t made = 0;
    for (; made < away->count && status == ACRE_OK; made += status == ACRE_OK)
        status = mapping_map(away->mappings[made]);
    for (size_t i = 0, end; i < away->count && status == ACRE_OK; i = end) {
        end = run_end(away, i, 1);
        status = run_access(away, i, end);
    }
    if (status)
        mappings_undo(away, made);
    for (size_t i = 0; i < away->count && !status; i++)
        away->mappings[i]->is_stuck = 0;
    return status;
}

/* ---- away ---- */

static void mark_away(const struct acre__away *away) {
    for (size_t i = 0; i < away->count; i++) {
        away->mappings[i]->chunk->is_waited = 0;
        acre__away_set(away->mappings[i], 1);
    }
}

acre_status acre__away_unmap(struct acre__away *away) {
    acre_status status = ACRE_OK;
    size_t done = 0;
    while (done < away->count) {
        size_t end = run_end(away, done, 0);
        status = run_unmap(away, done, end);
        if (status)
            break;
        done = end;
    }
    if (status == ACRE_OK) {
        mark_away(away);
        return ACRE_OK;
    }
    struct acre__said said;
    struct acre__away undone = {away->dev, away->mappings, done};
    acre__said_keep(&said);
    if (mappings_map(&undone) == ACRE_OK || mappings_map(&undone) == ACRE_OK)
        return acre__said_fail(status, &said);
    acre__log(ACRE_LOG_WARN, "suspend", "%s: the driver refuses to map memory again: %s",
              away->dev->label, acre_last_detail());
    away->count = done;
    mark_away(away);
    return ACRE_OK;
}

uint64_t acre__away_release(const struct acre__away *away) {
    uint64_t released = 0;
    for (size_t i = 0; i < away->count; i++) {
        struct acre__mapping *mapping = away->mappings[i];
        if (!mapping->is_stuck && !acre__chunk_is_away(mapping->chunk))
            released += acre__chunk_leave(mapping->chunk);
    }
    return released;
}

/* ---- back ---- */

/* Says how much memory is missing. */
static acre_status map_no_memory(const struct acre__away *away, size_t first, acre_status status,
                                 enum acre__held_for why) {
    struct acre__said said;
    uint64_t wanted = 0;
    size_t free_bytes = 0;
    acre__said_keep(&said);
    for (size_t i = first; i < away->count; i++)
        if (acre__chunk_is_away(away->mappings[i]->chunk))
            wanted += away->mappings[i]->chunk->bytes;
    if (status != ACRE_E_DEVICE_MEMORY || !acre__held_ask_free(away->dev, &free_bytes))
        return acre__said_fail(status, &said);
    uint64_t room = acre__held_room(away->dev, free_bytes, why);
    return acre__fail(status,
                      "%llu bytes of device memory are missing: %llu more are needed, and %llu are "
                      "%s",
                      (unsigned long long)(wanted > room ? wanted - room : wanted),
                      (unsigned long long)wanted, (unsigned long long)room,
                      room < free_bytes ? "left of the limits" : "free");
}

acre_status acre__away_map(const struct acre__away *away, enum acre__held_for why) {
    acre_status status = ACRE_OK;
    for (size_t i = 0; i < away->count && status == ACRE_OK; i++) {
        status = acre__chunk_return(away->mappings[i]->chunk, why);
        if (status)
            status = map_no_memory(away, i, status, why);
    }
    if (status == ACRE_OK)
        status = mappings_map(away);
    if (status)
        (void)acre__away_release(away);
    return status;
}

void acre__away_undo(const struct acre__away *away) {
    mappings_undo(away, away->count);
    (void)acre__away_release(away);
}

void acre__away_end(const struct acre__away *away) {
    for (size_t i = 0; i < away->count; i++) {
        struct acre__mapping *mapping = away->mappings[i];
        mapping->is_stuck = 0;
        acre__away_set(mapping, 0);
    }
}
