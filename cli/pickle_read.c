/* Reads a pickle: see pickle.h. The values that the opcodes make are looked at in pickle_value.c.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "pickle.h"

bool pickle_is(const unsigned char *bytes, size_t count) {
    return count >= 2 && bytes[0] == PICKLE_PROTO && bytes[1] >= 2 && bytes[1] <= 5;
}

void pickle_free(struct pickle *pickle) {
    free(pickle->items.at);
    free(pickle->stack.at);
    free(pickle->memo.at);
    free(pickle->boxes);
    *pickle = (struct pickle){0};
}

__attribute__((format(printf, 3, 4))) static bool read_fail(struct pickle *pickle, size_t at,
                                                            const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(pickle->fault, sizeof pickle->fault, format, arguments);
    va_end(arguments);
    pickle->fault_at = at;
    return false;
}

/* ---- lists of values ---- */

/* Makes room for more values. Returns false if that would exceed the limit. */
static bool values_grow(struct pickle_values *values, size_t more) {
    if (values->room - values->count >= more) {
        return true;
    }
    if (more > PICKLE_VALUES - values->count) {
        return false;
    }
    size_t room = values->room ? 2 * values->room : 1024;
    room = room < values->count + more ? values->count + more : room;
    room = room > PICKLE_VALUES ? PICKLE_VALUES : room;
    uint64_t *longer = reallocarray(values->at, room, sizeof *longer);
    if (!longer) {
        cli_say("out of memory");
        exit(CLI_CANNOT);
    }
    values->at = longer;
    values->room = room;
    return true;
}

static bool values_add(struct pickle *pickle, struct pickle_values *values, uint64_t value) {
    if (!values_grow(values, 1)) {
        return read_fail(pickle, pickle->at, "the pickle has more than 2^27 values");
    }
    values->at[values->count++] = value;
    return true;
}

static uint64_t value_make(enum pickle_kind kind, uint64_t payload) {
    return (uint64_t)kind << 60 | payload;
}

static bool read_push(struct pickle *pickle, enum pickle_kind kind, uint64_t payload) {
    return values_add(pickle, &pickle->stack, value_make(kind, payload));
}

/* Returns how many values are on the stack above the last mark. */
static size_t stack_above(const struct pickle *pickle) {
    size_t base = pickle->mark_count ? pickle->marks[pickle->mark_count - 1] : 0;
    return pickle->stack.count - base;
}

/* ---- boxes ---- */

static bool box_push(struct pickle *pickle, enum pickle_kind kind) {
    if (pickle->box_count == pickle->box_room) {
        size_t room = pickle->box_room ? 2 * pickle->box_room : 1024;
        if (room > PICKLE_BOXES) {
            return read_fail(pickle, pickle->at - 1,
                             "the pickle has more than 2^24 lists and dictionaries");
        }
        struct pickle_box *longer = reallocarray(pickle->boxes, room, sizeof *longer);
        if (!longer) {
            cli_say("out of memory");
            exit(CLI_CANNOT);
        }
        pickle->boxes = longer;
        pickle->box_room = room;
    }
    pickle->boxes[pickle->box_count] = (struct pickle_box){0};
    return read_push(pickle, kind, pickle->box_count++);
}

/* Moves a box to the end of the items, with room for more values. */
static bool box_move(struct pickle *pickle, struct pickle_box *box, size_t more) {
    size_t room = box->count + (box->count > more ? box->count : more);
    struct pickle_values *items = &pickle->items;
    if (!values_grow(items, room)) {
        return read_fail(pickle, pickle->at - 1, "the pickle has more than 2^27 values");
    }
    memcpy(items->at + items->count, items->at + box->start, box->count * sizeof *items->at);
    box->start = items->count;
    box->room = (uint32_t)room;
    items->count += room;
    return true;
}

/* Moves the topmost values of the stack into the box below them (and below their mark). */
static bool box_fill(struct pickle *pickle, enum pickle_kind kind, size_t more) {
    size_t at = pickle->at - 1;
    struct pickle_values *stack = &pickle->stack;
    uint64_t below = stack->count > more ? stack->at[stack->count - more - 1] : PICKLE_NOTHING;
    if (pickle_kind(below) != kind) {
        return read_fail(pickle, at, "there is no %s to add to",
                         kind == PICKLE_DICT ? "dictionary" : "list");
    }
    if (kind == PICKLE_DICT && more % 2 != 0) {
        return read_fail(pickle, at, "a key without a value");
    }
    struct pickle_box *box = &pickle->boxes[below & (UINT64_MAX >> 4)];
    if (more == 0) {
        return true;
    }
    if (box->room - box->count < more && !box_move(pickle, box, more)) {
        return false;
    }
    stack->count -= more;
    memcpy(pickle->items.at + box->start + box->count, stack->at + stack->count,
           more * sizeof *stack->at);
    box->count += (uint32_t)more;
    return true;
}

/* ---- opcodes ---- */

/* Reads a little-endian number of `bytes`, of which there are enough. */
static uint64_t read_little(const unsigned char *at, size_t bytes) {
    uint64_t value = 0;
    for (size_t i = bytes; i-- > 0;) {
        value = value << 8 | at[i];
    }
    return value;
}

/* Returns how many bytes follow an opcode at least; SIZE_MAX for an unknown one. */
static size_t opcode_bytes(unsigned char opcode) {
    switch (opcode) {
    case PICKLE_MARK:
    case PICKLE_STOP:
    case PICKLE_EMPTY_LIST:
    case PICKLE_APPEND:
    case PICKLE_APPENDS:
    case PICKLE_SETITEMS:
    case PICKLE_EMPTY_DICT:
    case PICKLE_TUPLE2:
    case PICKLE_NEWTRUE:
    case PICKLE_NEWFALSE:
    case PICKLE_MEMOIZE:
        return 0;
    case PICKLE_BININT1:
    case PICKLE_BINGET:
    case PICKLE_PROTO:
    case PICKLE_LONG1:
    case PICKLE_SHORT_BINUNICODE:
        return 1;
    case PICKLE_BININT2:
        return 2;
    case PICKLE_BININT:
    case PICKLE_BINUNICODE:
    case PICKLE_LONG_BINGET:
        return 4;
    case PICKLE_BINFLOAT:
    case PICKLE_FRAME:
        return 8;
    default:
        return SIZE_MAX;
    }
}

static bool read_tuple(struct pickle *pickle) {
    if (stack_above(pickle) < 2) {
        return read_fail(pickle, pickle->at - 1, "a tuple without its values");
    }
    if (!box_push(pickle, PICKLE_TUPLE)) {
        return false;
    }
    struct pickle_values *stack = &pickle->stack;
    uint64_t tuple = stack->at[stack->count - 1];
    struct pickle_box *box = &pickle->boxes[pickle->box_count - 1];
    if (!box_move(pickle, box, 2)) {
        return false;
    }
    memcpy(pickle->items.at + box->start, stack->at + stack->count - 3, 2 * sizeof *stack->at);
    box->count = 2;
    stack->count -= 2;
    stack->at[stack->count - 1] = tuple;
    return true;
}

/* Carries out APPENDS or SETITEMS. */
static bool read_marked(struct pickle *pickle, enum pickle_kind kind) {
    if (pickle->mark_count == 0) {
        return read_fail(pickle, pickle->at - 1, "there is no mark");
    }
    size_t more = stack_above(pickle);
    pickle->mark_count--;
    if (stack_above(pickle) <= more) {
        return read_fail(pickle, pickle->at - 1, "there is nothing to add to");
    }
    return box_fill(pickle, kind, more);
}

static bool read_memo(struct pickle *pickle, uint64_t index) {
    if (index >= pickle->memo.count) {
        return read_fail(pickle, pickle->at - 1, "value %llu of the memo does not exist",
                         (unsigned long long)index);
    }
    return values_add(pickle, &pickle->stack, pickle->memo.at[index]);
}

/* Carries out an opcode that changes lists, marks or the memo; pickle->at is behind it. `number`
 * is its argument. */
static bool read_structure(struct pickle *pickle, unsigned char opcode, uint64_t number) {
    switch (opcode) {
    case PICKLE_MARK:
        if (pickle->mark_count == PICKLE_DEPTH) {
            return read_fail(pickle, pickle->at - 1, "more than %d nested marks", PICKLE_DEPTH);
        }
        pickle->marks[pickle->mark_count++] = pickle->stack.count;
        return true;
    case PICKLE_EMPTY_LIST:
        return box_push(pickle, PICKLE_LIST);
    case PICKLE_EMPTY_DICT:
        return box_push(pickle, PICKLE_DICT);
    case PICKLE_TUPLE2:
        return read_tuple(pickle);
    case PICKLE_APPEND:
        return stack_above(pickle) < 2
                   ? read_fail(pickle, pickle->at - 1, "there is nothing to add to")
                   : box_fill(pickle, PICKLE_LIST, 1);
    case PICKLE_APPENDS:
        return read_marked(pickle, PICKLE_LIST);
    case PICKLE_SETITEMS:
        return read_marked(pickle, PICKLE_DICT);
    case PICKLE_MEMOIZE:
        return stack_above(pickle) == 0
                   ? read_fail(pickle, pickle->at - 1, "there is nothing to remember")
                   : values_add(pickle, &pickle->memo, pickle->stack.at[pickle->stack.count - 1]);
    default: /* PICKLE_BINGET, PICKLE_LONG_BINGET */
        return read_memo(pickle, number);
    }
}

/* Skips the bytes of a text or a long number behind its length. */
static bool read_long(struct pickle *pickle, enum pickle_kind kind, size_t at, uint64_t bytes) {
    if (bytes > pickle->count - pickle->at) {
        return read_fail(pickle, at, "the file ends in the middle of a value");
    }
    pickle->at += (size_t)bytes;
    return read_push(pickle, kind, at);
}

/* Carries out the opcode at pickle->at. *is_end: it was the last one. */
static bool read_opcode(struct pickle *pickle, bool *is_end) {
    size_t at = pickle->at, more = opcode_bytes(pickle->bytes[at]);
    unsigned char opcode = pickle->bytes[at];
    if (more == SIZE_MAX) {
        return read_fail(pickle, at,
                         "opcode 0x%02x is none of those in PyTorch's snapshots; nothing was "
                         "executed",
                         opcode);
    }
    if (more > pickle->count - at - 1) {
        return read_fail(pickle, at, "the file ends in the middle of a value");
    }
    uint64_t number = read_little(pickle->bytes + at + 1, more);
    pickle->at = at + 1 + more;
    switch (opcode) {
    case PICKLE_STOP:
        *is_end = true;
        return pickle->stack.count == 1 && pickle->mark_count == 0
                   ? true
                   : read_fail(pickle, at, "the pickle ends with %zu values, not one",
                               pickle->stack.count);
    case PICKLE_PROTO:
        return number <= 5 ? true : read_fail(pickle, at, "the pickle has an unknown protocol");
    case PICKLE_FRAME:
        return number <= pickle->count - pickle->at
                   ? true
                   : read_fail(pickle, at, "the file ends before its frame does");
    case PICKLE_NEWTRUE:
    case PICKLE_NEWFALSE:
        return read_push(pickle, PICKLE_BOOL, opcode == PICKLE_NEWTRUE);
    case PICKLE_BININT:
        return number > INT32_MAX ? read_push(pickle, PICKLE_SCALAR, at)
                                  : read_push(pickle, PICKLE_SMALL, number);
    case PICKLE_BININT1:
    case PICKLE_BININT2:
        return read_push(pickle, PICKLE_SMALL, number);
    case PICKLE_BINFLOAT:
        return read_push(pickle, PICKLE_SCALAR, at);
    case PICKLE_LONG1:
        return read_long(pickle, PICKLE_SCALAR, at, number);
    case PICKLE_SHORT_BINUNICODE:
    case PICKLE_BINUNICODE:
        return read_long(pickle, PICKLE_TEXT, at, number);
    default:
        return read_structure(pickle, opcode, number);
    }
}

bool pickle_read(struct pickle *pickle, const unsigned char *bytes, size_t count) {
    *pickle = (struct pickle){.bytes = bytes, .count = count};
    for (bool is_end = false; !is_end;) {
        if (pickle->at == count) {
            return read_fail(pickle, count, "the file ends before the pickle does");
        }
        if (!read_opcode(pickle, &is_end)) {
            return false;
        }
    }
    pickle->root = pickle->stack.at[0];
    return true;
}
