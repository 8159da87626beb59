/* Reads the pickles that PyTorch's memory snapshots are, without executing anything.
 *
 * A pickle is a program for a small stack machine, and some of its opcodes call functions. This
 * reader knows the 22 opcodes that snapshots consist of, all of which only make numbers, texts,
 * lists, tuples and dictionaries. Any other opcode is an error.
 *
 * A value is 64 bits: its kind, and a small number, an index of `boxes`, or the offset of its
 * opcode in the file. So the bytes of the file must stay as long as the pickle. Memory is bounded
 * by the limits below, time by the size of the file. Values may refer to each other in cycles: a
 * caller must not follow them without a limit. */
#ifndef ACRE_CLI_PICKLE_H
#define ACRE_CLI_PICKLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The opcodes, as in Python's pickletools. */
enum pickle_opcode {
    PICKLE_MARK = '(',
    PICKLE_STOP = '.',
    PICKLE_BINFLOAT = 'G',
    PICKLE_BININT = 'J',
    PICKLE_BININT1 = 'K',
    PICKLE_BININT2 = 'M',
    PICKLE_BINUNICODE = 'X',
    PICKLE_EMPTY_LIST = ']',
    PICKLE_APPEND = 'a',
    PICKLE_APPENDS = 'e',
    PICKLE_BINGET = 'h',
    PICKLE_LONG_BINGET = 'j',
    PICKLE_SETITEMS = 'u',
    PICKLE_EMPTY_DICT = '}',
    PICKLE_PROTO = 0x80,
    PICKLE_TUPLE2 = 0x86,
    PICKLE_NEWTRUE = 0x88,
    PICKLE_NEWFALSE = 0x89,
    PICKLE_LONG1 = 0x8a,
    PICKLE_SHORT_BINUNICODE = 0x8c,
    PICKLE_MEMOIZE = 0x94,
    PICKLE_FRAME = 0x95
};

enum pickle_kind {
    PICKLE_NOTHING, /* no value */
    PICKLE_BOOL,
    PICKLE_SMALL,  /* a number of up to 60 bits */
    PICKLE_SCALAR, /* another number, by the offset of its opcode */
    PICKLE_TEXT,   /* by the offset of its opcode */
    PICKLE_LIST,   /* by its box, as the following kinds */
    PICKLE_TUPLE,
    PICKLE_DICT
};

enum {
    PICKLE_DEPTH = 256,      /* nested marks; a snapshot has 8 */
    PICKLE_BOXES = 1 << 24,  /* lists, tuples and dictionaries */
    PICKLE_VALUES = 1 << 27, /* values in boxes; also on the stack, and in the memo */
    PICKLE_KEYS = 64,        /* pickle_get searches that many keys */
    PICKLE_FAULT_BYTES = 160
};

/* A list, tuple or dictionary. */
struct pickle_box {
    uint64_t start;       /* of its values in `items`; of a dictionary: key, value, ... */
    uint32_t count, room; /* values */
};

struct pickle_values {
    uint64_t *at;
    size_t count, room;
};

struct pickle {
    const unsigned char *bytes;
    size_t count, at; /* at: the next byte to read */
    struct pickle_values items, stack, memo;
    struct pickle_box *boxes;
    size_t box_count, box_room;
    size_t marks[PICKLE_DEPTH], mark_count; /* heights of the stack */
    uint64_t root;
    size_t fault_at; /* offset of what is wrong */
    char fault[PICKLE_FAULT_BYTES];
};

/* Returns true if the bytes begin as a pickle of protocol 2 to 5 does. */
bool pickle_is(const unsigned char *bytes, size_t count);

/* Reads a pickle; bytes after its end are ignored. Returns false if it is damaged or has another
 * opcode: `fault` says what, `fault_at` where. The caller calls pickle_free in either case. */
bool pickle_read(struct pickle *pickle, const unsigned char *bytes, size_t count);
void pickle_free(struct pickle *pickle);

enum pickle_kind pickle_kind(uint64_t value);
/* Get a number from 0 to 2^64 - 1, or a text. Return false if the value is something else. */
bool pickle_number(const struct pickle *pickle, uint64_t value, uint64_t *number);
bool pickle_text(const struct pickle *pickle, uint64_t value, const char **text, size_t *bytes);
/* Returns true if the value is True. */
bool pickle_is_true(uint64_t value);
/* Returns the number of values of a list or tuple, 0 for anything else; and one of them. */
size_t pickle_length(const struct pickle *pickle, uint64_t value);
uint64_t pickle_item(const struct pickle *pickle, uint64_t value, size_t index);
/* Returns the value of a key, or PICKLE_NOTHING. */
uint64_t pickle_get(const struct pickle *pickle, uint64_t dict, const char *key);

#endif
