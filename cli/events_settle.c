/* Prepares events for a replay: renumbers them and removes invalid ones; see events.h.
 *
 * Afterwards every block is allocated before it is freed or reallocated, and freed at most once,
 * whatever the file contained. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "events.h"

static int settle_compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Sorts numbers and removes duplicates. Returns how many are left. */
static size_t settle_unique(uint64_t *numbers, size_t count) {
    size_t kept = 0;
    if (count) {
        qsort(numbers, count, sizeof *numbers, settle_compare);
    }
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || numbers[i] != numbers[kept - 1]) {
            numbers[kept++] = numbers[i];
        }
    }
    return kept;
}

/* Returns the index of a number, or SIZE_MAX if it is not in the list. */
static size_t settle_find(const uint64_t *numbers, size_t count, uint64_t number) {
    const uint64_t *found =
        count ? bsearch(&number, numbers, count, sizeof *numbers, settle_compare) : NULL;
    return found ? (size_t)(found - numbers) : SIZE_MAX;
}

/* Renumbers ids from 0. `numbers` has room for all events. */
static void settle_ids(struct events *events, uint64_t *numbers) {
    size_t count = 0;
    for (size_t i = 0; i < events->count; i++) {
        if (events->list[i].kind == EVENT_ALLOC) {
            numbers[count++] = events->list[i].id;
        }
    }
    events->blocks = settle_unique(numbers, count);
    for (size_t i = 0; i < events->count; i++) {
        struct event *event = &events->list[i];
        size_t place = settle_find(numbers, events->blocks, event->id);
        if (place == SIZE_MAX) {
            event->kind = EVENT_OTHER;
        }
        event->id = event->kind == EVENT_OTHER ? 0 : place;
    }
}

/* Simulates the events and drops inconsistent ones. `live_bytes` has the size of each block, 0 if
 * it is not live. */
static void settle_walk(struct events *events, uint64_t *live_bytes) {
    uint64_t live = 0;
    for (size_t i = 0; i < events->count; i++) {
        struct event *event = &events->list[i];
        if (event->kind == EVENT_OTHER) {
            continue;
        }
        uint64_t *own = &live_bytes[event->id];
        bool is_live = *own != 0, is_free = event->kind == EVENT_FREE;
        if (is_live == (event->kind == EVENT_ALLOC) || (!is_free && event->bytes == 0)) {
            event->kind = EVENT_OTHER;
            continue;
        }
        event->bytes = is_free ? *own : event->bytes;
        live -= live == UINT64_MAX ? 0 : *own;
        *own = is_free ? 0 : event->bytes;
        live = live > UINT64_MAX - *own ? UINT64_MAX : live + *own;
        events->peak_bytes = live > events->peak_bytes ? live : events->peak_bytes;
        events->ops++;
    }
}

static void settle_streams(struct events *events, uint64_t *numbers) {
    size_t count = 0;
    for (size_t i = 0; i < events->count; i++) {
        if (events->list[i].kind != EVENT_OTHER) {
            numbers[count++] = events->list[i].stream;
        }
    }
    events->streams = settle_unique(numbers, count);
    events->stream_ids = cli_alloc(events->streams * sizeof *events->stream_ids);
    memcpy(events->stream_ids, numbers, events->streams * sizeof *numbers);
    for (size_t i = 0; i < events->count; i++) {
        struct event *event = &events->list[i];
        if (event->kind != EVENT_OTHER) {
            event->stream = settle_find(numbers, events->streams, event->stream);
        }
    }
    count = 0;
    for (size_t i = 0; i < events->count; i++) {
        if (events->list[i].kind != EVENT_OTHER) {
            numbers[count++] = events->list[i].thread;
        }
    }
    events->threads = settle_unique(numbers, count);
    for (size_t i = 0; i < events->count; i++) {
        struct event *event = &events->list[i];
        event->thread = event->kind == EVENT_OTHER
                            ? 0
                            : (uint32_t)settle_find(numbers, events->threads, event->thread);
    }
}

int events_settle(const char *path, struct events *events) {
    uint64_t *numbers = cli_alloc(events->count * sizeof *numbers);
    events->ops = events->peak_bytes = 0;
    settle_ids(events, numbers);
    uint64_t *live_bytes = cli_alloc(events->blocks * sizeof *live_bytes);
    settle_walk(events, live_bytes);
    settle_streams(events, numbers);
    free(live_bytes);
    free(numbers);
    const char *what = NULL;
    if (events->ops == 0) {
        what = "there are no allocations to replay";
    } else if (events->streams > EVENTS_STREAMS) {
        what = "the trace has more than 1024 streams";
    }
    if (what) {
        cli_say("%s: %s", path, what);
        events_free(events);
        return CLI_CANNOT;
    }
    return 0;
}
