/* Lifetimes: id,lower,upper,size, a block that is live from `lower` to before `upper`.
 *
 * The blocks become allocations and frees in the order of time; at one time frees come first, since
 * a block that ends there does not overlap one that begins. All on one stream. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "events.h"
#include "events_text.h"

enum { LIFE_ID, LIFE_LOWER, LIFE_UPPER, LIFE_SIZE, LIFE_COLUMNS };

static const char *const life_names[LIFE_COLUMNS] = {"id", "lower", "upper", "size"};

struct life_row {
    struct text_field id;
    size_t line;
};

struct life {
    struct text text;
    struct events *events;
    struct life_row *rows;
    size_t count, room;
};

/* By name, and of equal ones the earlier line first. */
static int life_compare_rows(const void *a, const void *b) {
    const struct life_row *x = a, *y = b;
    size_t shorter = x->id.length < y->id.length ? x->id.length : y->id.length;
    int order = memcmp(x->id.at, y->id.at, shorter);
    if (order == 0) {
        order = (x->id.length > y->id.length) - (x->id.length < y->id.length);
    }
    return order ? order : (x->line > y->line) - (x->line < y->line);
}

static int life_compare_events(const void *a, const void *b) {
    const struct event *x = a, *y = b;
    if (x->time_ns != y->time_ns) {
        return x->time_ns < y->time_ns ? -1 : 1;
    }
    if (x->kind != y->kind) {
        return x->kind == EVENT_FREE ? -1 : 1;
    }
    return (x->id > y->id) - (x->id < y->id);
}

static void life_add_row(struct life *life) {
    if (life->count == life->room) {
        life->room = life->room ? 2 * life->room : 256;
        struct life_row *longer = reallocarray(life->rows, life->room, sizeof *longer);
        if (!longer) {
            cli_say("out of memory");
            exit(CLI_CANNOT);
        }
        life->rows = longer;
    }
    life->rows[life->count++] = (struct life_row){life->text.field[LIFE_ID], life->text.line};
}

static int life_line(struct life *life) {
    const struct text *text = &life->text;
    uint64_t lower, upper, bytes;
    if (text->field[LIFE_ID].length == 0) {
        return text_refuse(text, LIFE_ID, 0, "id is empty");
    }
    if (!text_number(text, LIFE_LOWER, 10, &lower) || !text_number(text, LIFE_UPPER, 10, &upper) ||
        !text_number(text, LIFE_SIZE, 10, &bytes)) {
        return CLI_CANNOT;
    }
    if (upper <= lower) {
        return text_refuse(text, LIFE_UPPER, 0, "the block ends before it begins, or at once");
    }
    if (bytes == 0) {
        return text_refuse(text, LIFE_SIZE, 0, "size is 0: there are no blocks without bytes");
    }
    *events_add(life->events) =
        (struct event){.kind = EVENT_ALLOC, .id = life->count, .bytes = bytes, .time_ns = lower};
    *events_add(life->events) =
        (struct event){.kind = EVENT_FREE, .id = life->count, .bytes = bytes, .time_ns = upper};
    life_add_row(life);
    return 0;
}

/* Every id stands in one line. */
static int life_check_ids(const struct life *life) {
    qsort(life->rows, life->count, sizeof *life->rows, life_compare_rows);
    for (size_t i = 1; i < life->count; i++) {
        const struct life_row *row = &life->rows[i], *before = row - 1;
        if (row->id.length == before->id.length &&
            memcmp(row->id.at, before->id.at, row->id.length) == 0) {
            return events_refuse(
                life->text.path, row->line, row->id.column, "id '%.*s' stands in line %zu already",
                (int)(row->id.length < 40 ? row->id.length : 40), row->id.at, before->line);
        }
    }
    return 0;
}

int events_read_lifetimes(const char *path, const unsigned char *bytes, size_t count,
                          struct events *events) {
    struct life life = {.events = events};
    events->format = "lifetimes";
    int code = text_begin(&life.text, path, bytes, count, life_names, LIFE_COLUMNS);
    for (int more = 1; code == 0 && more == 1;) {
        more = text_next(&life.text);
        code = more == 1 ? life_line(&life) : more == 0 ? 0 : CLI_CANNOT;
    }
    if (code == 0 && life.count) {
        code = life_check_ids(&life);
    }
    free(life.rows);
    if (code == 0 && events->count) {
        qsort(events->list, events->count, sizeof *events->list, life_compare_events);
    }
    return code;
}
