/* The file of a trace, as the library writes it and the tool reads it.
 *
 * A header, then blocks of one size. A block belongs to one thread and can be read by itself: it
 * begins with the time and carries everything that its events refer to, so blocks may be missing,
 * and the oldest may be overwritten. Of a block the first `committed` bytes behind its header are
 * events; whatever follows was not finished. Numbers are little endian.
 *
 * Times are in units of the clock that the header names, each event's since the one before in its
 * block; `rate` turns them into nanoseconds. A varint has 7 bits a byte, the lowest first, and the
 * top bit of each byte but the last is set; a signed number is folded first: 0, -1, 1, -2, ...
 *
 * Both sides of a block keep one table of places, by the hash of an address: what is known of the
 * address that was there last. An event whose address, sizes and context are those of its place is
 * three bytes:
 *
 *     1 K T T I I I I   I I I I I I I I   T T T T T T T T
 *
 * K is 1 for an alloc and 0 for a free, I the place, T the time; a time of 1023 is followed by a
 * varint with the rest. All other events begin with their kind and the time as a varint. What comes
 * behind stands beside the kind below. A context is a pool, a stream and a tag, told once a block.
 */
#ifndef ACRE_WATCH_TRACE_FORMAT_H
#define ACRE_WATCH_TRACE_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#define ACRE__TRACE_MAGIC "ACRETRC\n"
#define ACRE__TRACE_BLOCK_MAGIC 0x4b425441u /* "ATBK" */

enum {
    ACRE__TRACE_VERSION = 1,
    ACRE__TRACE_HEADER_BYTES = 4096,
    ACRE__TRACE_BLOCK_BYTES = 64 << 10, /* as written; a reader takes what the header says */
    ACRE__TRACE_BLOCK_LEAST = 4096,
    ACRE__TRACE_BLOCK_MOST = 16 << 20,
    ACRE__TRACE_PLACES = 4096, /* of the table */
    ACRE__TRACE_CONTEXTS = 256 /* of a block */
};

/* Why nothing more was recorded. */
enum {
    ACRE__TRACE_RUNNING = 0, /* or the program ended in the middle */
    ACRE__TRACE_STOPPED = 1, /* by acre_trace_stop */
    ACRE__TRACE_FULL = 2,    /* the limit of bytes was reached */
    ACRE__TRACE_FAILED = 3   /* the file could not be grown: no space left, or a limit */
};

struct acre__trace_header {
    char magic[8];
    uint32_t version;
    uint32_t header_bytes;
    uint32_t block_bytes;
    uint32_t pid;
    uint64_t start_units;   /* of the clock, at the start */
    uint64_t start_real_ns; /* the same moment, since 1970 */
    uint64_t rate;          /* nanoseconds a unit, times 2^32; changed as it gets known better */
    uint32_t state;         /* ACRE__TRACE_RUNNING, ... */
    uint32_t is_ring;       /* the oldest blocks may be gone */
    uint32_t error;         /* errno, when it failed */
    uint32_t reserved;
    char clock[16];   /* what the units come from, for people */
    char library[16]; /* version of the library */
};

struct acre__trace_block {
    uint32_t magic;
    uint32_t committed; /* bytes of events; stored last, with release order */
    uint64_t thread;    /* a number that no other thread of the process has; 0: names */
    uint64_t sequence;  /* of all blocks of the file, from 1 on, in the order they were begun */
    uint64_t units;     /* the clock, when it was begun */
    uint32_t os_thread; /* of the system */
    uint32_t is_open;   /* somebody writes to it; of meaning while the program runs */
    uint64_t reserved[3];
};

/* The kinds of events that are not of three bytes; 128 and above is the short form.
 *
 * `place`: 2 bytes, a place of the table. `address`: the difference to the address before in units
 * of 256 bytes, folded, as a varint; with ACRE__TRACE_LOW a byte with the rest follows. `context`:
 * a byte. `size`: a varint. `text`: its length as a varint, and its bytes. */
enum acre__trace_kind {
    ACRE__TRACE_NONE = 0,
    ACRE__TRACE_ALLOC = 1,      /* flags, place or address, [context], [bytes], [real - bytes] */
    ACRE__TRACE_FREE = 2,       /* flags, place or address, [context] */
    ACRE__TRACE_CONTEXT = 3,    /* number (a byte), pool, stream, tag: for the events from now on */
    ACRE__TRACE_REALLOC = 4,    /* as alloc, then the address before: address, low byte */
    ACRE__TRACE_FREE_AFTER = 5, /* as free, then a number of the event */
    ACRE__TRACE_FREE_REFUSED = 6,  /* as free, then -status: the free before was none */
    ACRE__TRACE_REFUSED = 7,       /* context, bytes, -status: an alloc that failed */
    ACRE__TRACE_CHUNK_CREATE = 8,  /* number, bytes */
    ACRE__TRACE_CHUNK_RELEASE = 9, /* number, bytes */
    ACRE__TRACE_CHUNK_MAP = 10,    /* address / 256, bytes */
    ACRE__TRACE_CHUNK_UNMAP = 11,  /* address / 256, bytes */
    ACRE__TRACE_CHUNK_MOVE = 12,   /* address / 256 before, the one after, bytes */
    ACRE__TRACE_WAIT = 13,         /* context: its stream waits for memory of another */
    ACRE__TRACE_TAG_NAME = 14,     /* number, text */
    ACRE__TRACE_POOL_NAME = 15,    /* number, text */
    ACRE__TRACE_THREAD_BEGIN = 16,
    ACRE__TRACE_THREAD_END = 17,
    ACRE__TRACE_MARK = 18, /* text */
    ACRE__TRACE_KINDS = 19,
    ACRE__TRACE_SHORT = 0x80,      /* the short form: */
    ACRE__TRACE_SHORT_ALLOC = 0x40 /* of an alloc */
};

/* Flags of ALLOC, REALLOC, FREE, FREE_AFTER and FREE_REFUSED. */
enum {
    ACRE__TRACE_AT_PLACE = 1,   /* the address of a place, not the difference */
    ACRE__TRACE_IN_CONTEXT = 2, /* the context follows; else it is that of the event before */
    ACRE__TRACE_REAL = 4,       /* the real size follows; else it is acre__trace_rounded */
    ACRE__TRACE_SAME_BYTES = 8, /* as many bytes as the alloc before; else the size follows */
    ACRE__TRACE_LOW = 16        /* the address is no multiple of 256: its low byte follows */
};

enum {
    ACRE__TRACE_SHORT_TIME = 1023, /* from here on a varint follows */
    ACRE__TRACE_TEXT_MOST = 200,   /* bytes of a text; longer ones are cut */
    ACRE__TRACE_RECORD_MOST = 256  /* bytes of one event at most */
};

/* What both sides know of the address that was at a place last. */
struct acre__trace_place {
    uint64_t address;
    uint64_t bytes;
    uint32_t spare;       /* real bytes beyond them; UINT32_MAX: not to be had from here */
    uint16_t epoch;       /* the block that it was written in; another means that it is empty */
    uint8_t context;      /* of the last alloc there */
    uint8_t free_context; /* of the last free there */
};

static inline uint32_t acre__trace_hash(uint64_t address) {
    return (uint32_t)((address >> 8) * UINT64_C(0x9e3779b97f4a7c15) >> 52);
}

static inline uint64_t acre__trace_fold(int64_t value) {
    return (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
}
static inline int64_t acre__trace_unfold(uint64_t value) {
    return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

/* What a block usually has: a multiple of 256 up to 2 KiB, then 8 sizes for each doubling. */
static inline uint64_t acre__trace_rounded(uint64_t bytes) {
    if (bytes == 0 || bytes > UINT64_C(1) << 62)
        return bytes;
    uint32_t top = 63 - (uint32_t)__builtin_clzll(bytes > 1 ? bytes - 1 : 1);
    uint64_t step = top < 11 ? 256 : UINT64_C(1) << (top - 3);
    return (bytes + step - 1) & ~(step - 1);
}

#endif
