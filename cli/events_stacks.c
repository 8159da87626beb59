/* Texts, tags and call stacks of events: see events.h. Everything grows by doubling, up to the
 * limits in events.h: files are untrusted. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "events.h"

/* Makes room for `more` items of a list that has `count`. */
static void *list_grow(void *list, size_t *room, size_t count, size_t more, size_t item_bytes) {
    if (*room - count >= more) {
        return list;
    }
    size_t wanted = *room ? 2 * *room : 64;
    wanted = wanted < count + more ? count + more : wanted;
    void *longer = reallocarray(list, wanted, item_bytes);
    if (!longer) {
        cli_say("out of memory");
        exit(CLI_CANNOT);
    }
    *room = wanted;
    return longer;
}

static char *text_copy(const char *text, size_t bytes) {
    char *copy = cli_alloc(bytes + 1);
    memcpy(copy, text, bytes);
    for (size_t i = 0; i < bytes; i++) { /* a text ends at its NUL: none may be inside */
        copy[i] = copy[i] ? copy[i] : '?';
    }
    return copy;
}

uint32_t events_add_text(struct events *events, const char *text, size_t bytes) {
    if (events->text_count == EVENTS_TEXTS) {
        return 0;
    }
    events->texts =
        list_grow(events->texts, &events->text_room, events->text_count, 1, sizeof *events->texts);
    events->texts[events->text_count++] = text_copy(text, bytes);
    return (uint32_t)events->text_count;
}

uint32_t events_add_frame(struct events *events, const struct event_frame *frame) {
    if (events->frame_count == EVENTS_TEXTS) {
        return 0;
    }
    events->frames = list_grow(events->frames, &events->frame_room, events->frame_count, 1,
                               sizeof *events->frames);
    events->frames[events->frame_count++] = *frame;
    return (uint32_t)events->frame_count;
}

uint32_t events_add_stack(struct events *events, const uint32_t *frames, size_t count) {
    if (events->stack_count == EVENTS_TEXTS || count == 0 ||
        events->stack_frame_count + count > EVENTS_STACK_FRAMES) {
        return 0;
    }
    events->stacks = list_grow(events->stacks, &events->stack_room, events->stack_count, 1,
                               sizeof *events->stacks);
    events->stack_frames =
        list_grow(events->stack_frames, &events->stack_frame_room, events->stack_frame_count, count,
                  sizeof *events->stack_frames);
    for (size_t i = 0; i < count; i++) {
        events->stack_frames[events->stack_frame_count + i] = frames[i] - 1;
    }
    events->stacks[events->stack_count++] =
        (struct event_stack){(uint32_t)events->stack_frame_count, (uint32_t)count};
    events->stack_frame_count += count;
    return (uint32_t)events->stack_count;
}

uint32_t events_add_tag(struct events *events, const char *name, size_t bytes) {
    char *copy = text_copy(name, bytes);
    for (size_t i = events->tag_count; i-- > 0;) {
        if (strcmp(events->tag_names[i], copy) == 0) {
            free(copy);
            return (uint32_t)(i + 1);
        }
    }
    if (events->tag_count == EVENTS_STREAMS) {
        free(copy); /* unlikely in a real program: further tags are dropped */
        return 0;
    }
    size_t room = events->tag_count;
    events->tag_names =
        list_grow(events->tag_names, &room, events->tag_count, 1, sizeof *events->tag_names);
    events->tag_names[events->tag_count++] = copy;
    return (uint32_t)events->tag_count;
}
