/* Reads RMM's log of allocations: Thread,Time,Action,Pointer,Size,Stream, in the order of the
 * calls.
 *
 * Actions are allocate, free and "allocate failure", which allocates nothing. Pointers and streams
 * are hexadecimal. Addresses are reused, so each allocation gets a unique number. A tree holds the
 * live blocks by address. */
#include <inttypes.h>
#include <search.h>
#include <stdlib.h>

#include "cli.h"
#include "events.h"
#include "events_text.h"

enum { RMM_THREAD, RMM_TIME, RMM_ACTION, RMM_POINTER, RMM_SIZE, RMM_STREAM, RMM_COLUMNS };

static const char *const rmm_names[RMM_COLUMNS] = {"Thread",  "Time", "Action",
                                                   "Pointer", "Size", "Stream"};

struct rmm_block {
    uint64_t pointer;
    uint64_t id, bytes;
    size_t line; /* of its allocation */
};

struct rmm {
    struct text text;
    struct events *events;
    void *live; /* struct rmm_block, by pointer */
    uint64_t allocated;
};

static int rmm_compare(const void *a, const void *b) {
    uint64_t x = ((const struct rmm_block *)a)->pointer, y = ((const struct rmm_block *)b)->pointer;
    return (x > y) - (x < y);
}

/* Parses "HH:MM:SS" and a fraction after '.' or ':'; versions of RMM differ. */
static int rmm_time(const struct text *text, uint64_t *time_ns) {
    static const char form[] = "00:00:00";
    const struct text_field *field = &text->field[RMM_TIME];
    uint64_t part[3] = {0}, fraction = 0, unit = 1000000000;
    size_t at = 0;
    for (; at < sizeof form - 1; at++) {
        char byte = at < field->length ? field->at[at] : '\0';
        int good = form[at] == ':' ? byte == ':' : byte >= '0' && byte <= '9';
        if (!good) {
            text_refuse(text, RMM_TIME, at, "Time is not of the form 12:34:56.789012");
            return 0;
        }
        part[at / 3] = byte == ':' ? part[at / 3] : part[at / 3] * 10 + (uint64_t)(byte - '0');
    }
    for (size_t i = at; i < field->length; i++) {
        char byte = field->at[i];
        if (i == at ? byte != '.' && byte != ':' : byte < '0' || byte > '9') {
            text_refuse(text, RMM_TIME, i, "Time is not of the form 12:34:56.789012");
            return 0;
        }
        if (i > at && unit > 1) { /* digits below a nanosecond are ignored */
            fraction = fraction * 10 + (uint64_t)(byte - '0');
            unit /= 10;
        }
    }
    *time_ns = (part[0] * 3600 + part[1] * 60 + part[2]) * 1000000000 + fraction * unit;
    return 1;
}

static int rmm_alloc(struct rmm *rmm, uint64_t pointer, struct event *event) {
    const struct text *text = &rmm->text;
    if (event->bytes == 0) {
        return text_refuse(text, RMM_SIZE, 0, "Size is 0: a block has at least one byte");
    }
    if (pointer == 0) {
        return text_refuse(text, RMM_POINTER, 0, "Pointer of an allocation is 0");
    }
    struct rmm_block *block = cli_alloc(sizeof *block);
    *block = (struct rmm_block){pointer, rmm->allocated, event->bytes, text->line};
    struct rmm_block **found = tsearch(block, &rmm->live, rmm_compare);
    if (!found) {
        free(block);
        cli_say("out of memory");
        return CLI_CANNOT;
    }
    if (*found != block) {
        free(block);
        return text_refuse(text, RMM_POINTER, 0,
                           "0x%" PRIx64 " is already live, allocated in line %zu", pointer,
                           (*found)->line);
    }
    event->kind = EVENT_ALLOC;
    event->id = rmm->allocated++;
    return 0;
}

static int rmm_free(struct rmm *rmm, uint64_t pointer, struct event *event) {
    struct rmm_block key = {.pointer = pointer};
    struct rmm_block **found = tfind(&key, &rmm->live, rmm_compare);
    if (!found) {
        return text_refuse(&rmm->text, RMM_POINTER, 0,
                           "0x%" PRIx64 " is freed but is not a live block", pointer);
    }
    struct rmm_block *block = *found;
    event->kind = EVENT_FREE;
    event->id = block->id;
    event->bytes = block->bytes;
    tdelete(block, &rmm->live, rmm_compare);
    free(block);
    return 0;
}

/* Parses one line, which has all its fields. */
static int rmm_line(struct rmm *rmm) {
    const struct text *text = &rmm->text;
    const struct text_field *action = &text->field[RMM_ACTION];
    struct event event = {.kind = EVENT_OTHER};
    uint64_t thread = 0, pointer = 0;
    if (!text_number(text, RMM_THREAD, 10, &thread) || !rmm_time(text, &event.time_ns)) {
        return CLI_CANNOT;
    }
    event.thread = (uint32_t)(thread ^ thread >> 32);
    bool is_alloc = text_is(action, "allocate"), is_free = text_is(action, "free");
    if (!is_alloc && !is_free && !text_is(action, "allocate failure")) {
        return text_refuse(text, RMM_ACTION, 0,
                           "unknown Action '%.*s': expected allocate, free or allocate failure",
                           (int)(action->length < 40 ? action->length : 40), action->at);
    }
    if (!text_number(text, RMM_POINTER, 16, &pointer) ||
        !text_number(text, RMM_SIZE, 10, &event.bytes) ||
        !text_number(text, RMM_STREAM, 16, &event.stream)) {
        return CLI_CANNOT;
    }
    int code = is_alloc  ? rmm_alloc(rmm, pointer, &event)
               : is_free ? rmm_free(rmm, pointer, &event)
                         : 0;
    event.address = event.kind == EVENT_OTHER ? 0 : pointer;
    event.note = event.kind == EVENT_OTHER ? EVENT_NOTE_REFUSED : EVENT_NOTE_NONE;
    if (code == 0) {
        *events_add(rmm->events) = event;
    }
    return code;
}

int events_read_rmm(const char *path, const unsigned char *bytes, size_t count,
                    struct events *events) {
    struct rmm rmm = {.events = events};
    events->format = "rmm";
    int code = text_begin(&rmm.text, path, bytes, count, rmm_names, RMM_COLUMNS);
    for (int more = 1; code == 0 && more == 1;) {
        more = text_next(&rmm.text);
        code = more == 1 ? rmm_line(&rmm) : more == 0 ? 0 : CLI_CANNOT;
    }
    tdestroy(rmm.live, free);
    return code;
}
