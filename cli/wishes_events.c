/* Converts an allocation trace to lifetimes; see wishes.h. */
#include <inttypes.h>
#include <stdlib.h>

#include "cli.h"
#include "wishes.h"

enum { NUMBER_DIGITS = 20 }; /* of 64 bits */

/* Starts a wish at an event. Its end is set later. */
static size_t wish_begin(struct wishes *wishes, const struct event *event, size_t now) {
    size_t index = wishes->count++;
    char *name = wishes->text + index * (NUMBER_DIGITS + 1);
    int length = snprintf(name, NUMBER_DIGITS + 1, "%zu", index);
    wishes->list[index] =
        (struct acre__place_buffer){.size = event->bytes, .align = 1, .lower = (int64_t)now};
    wishes->names[index] = (struct wish_name){.at = name, .length = (size_t)length};
    return index;
}

void wishes_from_events(const struct events *events, struct wishes *wishes) {
    size_t *current = cli_alloc(events->blocks * sizeof *current); /* by block: its wish */
    size_t room = 0, now = 0;
    for (size_t i = 0; i < events->count; i++) {
        uint8_t kind = events->list[i].kind;
        room += kind == EVENT_ALLOC || kind == EVENT_REALLOC;
    }
    *wishes = (struct wishes){.format = events->format,
                              .list = cli_alloc(room * sizeof *wishes->list),
                              .names = cli_alloc(room * sizeof *wishes->names),
                              .room = room,
                              .text = cli_alloc(room * (NUMBER_DIGITS + 1))};
    for (size_t i = 0; i < events->count; i++) {
        const struct event *event = &events->list[i];
        if (event->kind == EVENT_OTHER) {
            continue;
        }
        if (event->kind != EVENT_ALLOC) {
            /* A realloc may copy: the old buffer stays live during the event. */
            wishes->list[current[event->id]].upper = (int64_t)now + (event->kind == EVENT_REALLOC);
        }
        if (event->kind != EVENT_FREE) {
            current[event->id] = wish_begin(wishes, event, now);
        }
        now++;
    }
    for (size_t i = 0; i < wishes->count; i++) {
        if (wishes->list[i].upper == 0) { /* never freed */
            wishes->list[i].upper = (int64_t)now;
        }
    }
    free(current);
}
