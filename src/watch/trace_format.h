/* The file format of a trace, which the library writes and the tool reads.
 *
 * A header is followed by blocks of one size. A block belongs to one thread and can be decoded by
 * itself: it begins with the time and contains everything that its events refer to. So blocks may
 * be missing, and the oldest may be overwritten. The first `committed` bytes behind a block's
 * header are events; the rest is incomplete. Numbers are little endian.
 *
 * Times are in units of the clock that the header names, relative to the previous event of the
 * block; `rate` converts them to nanoseconds. A varint has 7 bits per byte, the lowest first; the
 * top bit is set in all bytes but the last. A signed number is folded first: 0, -1, 1, -2, ...
 *
 * Writer and reader of a block keep the same table of places, indexed by the hash of an address. A
 * place holds what is known about the last address with that hash. An event whose address, sizes
 * and context match its place takes three bytes:
 *
 *     1 K T T I I I I   I I I I I I I I   T T T T T T T T
 *
 * K is 1 for an alloc and 0 for a free, I is the place, T the time; a time of 1023 is followed by a
 * varint with the rest. All other events begin with their kind and the time as a varint, followed
 * by the fields listed at the kind below. A context is a pool, a stream, a tag and, in version 2,
 * the call stack of an alloc, written once per block.
 *
 * Version 2 is written if call stacks are on (ACRE_STACKS); it differs in contexts and in the kinds
 * STACK and MODULE_NAME. */
#ifndef ACRE_WATCH_TRACE_FORMAT_H
#define ACRE_WATCH_TRACE_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#define ACRE__TRACE_MAGIC "ACRETRC\n"
#define ACRE__TRACE_BLOCK_MAGIC 0x4b425441u /* "ATBK" */

enum {
    ACRE__TRACE_VERSION = 1,
    ACRE__TRACE_VERSION_STACKS = 2,
    ACRE__TRACE_HEADER_BYTES = 4096,
    ACRE__TRACE_BLOCK_BYTES = 64 << 10, /* as written; a reader uses the header's value */
    ACRE__TRACE_BLOCK_LEAST = 4096,
    ACRE__TRACE_BLOCK_MOST = 16 << 20,
    ACRE__TRACE_PLACES = 4096, /* places of the table */
    ACRE__TRACE_CONTEXTS = 256 /* contexts of a block */
};

/* State of the trace: why it ended. */
enum {
    ACRE__TRACE_RUNNING = 0, /* running, or the program ended without a stop */
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
    uint64_t start_units;   /* clock at the start */
    uint64_t start_real_ns; /* time at the start, nanoseconds since 1970 */
    uint64_t rate;          /* nanoseconds per unit, times 2^32; refined while the trace runs */
    uint32_t state;         /* ACRE__TRACE_RUNNING, ... */
    uint32_t is_ring;       /* 1: the oldest blocks may be overwritten */
    uint32_t error;         /* errno, when it failed */
    uint32_t card_mib;      /* memory of the devices that the program has opened; 0: unknown */
    char clock[16];         /* name of the clock, for people */
    char library[16];       /* version of the library */
};

struct acre__trace_block {
    uint32_t magic;
    uint32_t committed; /* bytes of events; stored last, with release order */
    uint64_t thread;    /* unique among the threads of the process; 0: a block of names */
    uint64_t sequence;  /* numbers the blocks of the file from 1, in the order they were started */
    uint64_t units;     /* clock when the block was started */
    uint32_t os_thread; /* thread ID of the system */
    uint32_t is_open;   /* 1: a thread is writing it; valid only while the program runs */
    uint64_t reserved[3];
};

/* Kinds of events in the long form; a first byte of 128 and above is the short form.
 *
 * `place`: 2 bytes, an index of the table. `address`: the difference to the previous address in
 * units of 256 bytes, folded, as a varint; with ACRE__TRACE_LOW a byte with the rest follows.
 * `context`: a byte. `size`: a varint. `text`: its length as a varint, and its bytes. */
enum acre__trace_kind {
    ACRE__TRACE_NONE = 0,
    ACRE__TRACE_ALLOC = 1,      /* flags, place or address, [context], [bytes], [real - bytes] */
    ACRE__TRACE_FREE = 2,       /* flags, place or address, [context] */
    ACRE__TRACE_CONTEXT = 3,    /* number (a byte), pool, stream, tag, in version 2 the stack or 0:
                                   defines a context */
    ACRE__TRACE_REALLOC = 4,    /* as alloc, then the old address: address, low byte */
    ACRE__TRACE_FREE_AFTER = 5, /* as free, then a number of the event */
    ACRE__TRACE_FREE_REFUSED = 6,  /* as free, then -status: the previous free of it failed */
    ACRE__TRACE_REFUSED = 7,       /* context, bytes, -status: an alloc that failed */
    ACRE__TRACE_CHUNK_CREATE = 8,  /* number, bytes */
    ACRE__TRACE_CHUNK_RELEASE = 9, /* number, bytes */
    ACRE__TRACE_CHUNK_MAP = 10,    /* address / 256, bytes */
    ACRE__TRACE_CHUNK_UNMAP = 11,  /* address / 256, bytes */
    ACRE__TRACE_CHUNK_MOVE = 12,   /* old address / 256, new address / 256, bytes */
    ACRE__TRACE_WAIT = 13,         /* context: its stream waits for memory of another stream */
    ACRE__TRACE_TAG_NAME = 14,     /* number, text */
    ACRE__TRACE_POOL_NAME = 15,    /* number, text */
    ACRE__TRACE_THREAD_BEGIN = 16,
    ACRE__TRACE_THREAD_END = 17,
    ACRE__TRACE_MARK = 18,  /* text */
    ACRE__TRACE_STACK = 19, /* number, text: "MODULE:OFFSET ..." (hexadecimal), innermost first */
    ACRE__TRACE_MODULE_NAME = 20, /* number, text: the end of the path if it is too long */
    ACRE__TRACE_KINDS = 21,
    ACRE__TRACE_SHORT = 0x80,      /* flag of the short form */
    ACRE__TRACE_SHORT_ALLOC = 0x40 /* in the short form: an alloc */
};

/* Flags of ALLOC, REALLOC, FREE, FREE_AFTER and FREE_REFUSED. */
enum {
    ACRE__TRACE_AT_PLACE = 1,   /* a place follows instead of an address */
    ACRE__TRACE_IN_CONTEXT = 2, /* the context follows; else it is that of the previous event */
    ACRE__TRACE_REAL = 4,       /* the real size follows; else it is acre__trace_rounded */
    ACRE__TRACE_SAME_BYTES = 8, /* as many bytes as the previous alloc; else the size follows */
    ACRE__TRACE_LOW = 16        /* the address is not a multiple of 256: its low byte follows */
};

enum {
    ACRE__TRACE_SHORT_TIME = 1023, /* from here on a varint follows */
    ACRE__TRACE_TEXT_MOST = 200,   /* bytes of a text; longer ones are truncated */
    ACRE__TRACE_RECORD_MOST = 256  /* maximum bytes of one event */
};

/* What writer and reader know about the last address at a place. */
struct acre__trace_place {
    uint64_t address;
    uint64_t bytes;
    uint32_t spare;       /* real size - `bytes`; UINT32_MAX: unknown or too large */
    uint16_t epoch;       /* block that wrote the place; with another value the place is empty */
    uint8_t context;      /* context of the last alloc of the address */
    uint8_t free_context; /* context of the last free of the address */
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

/* The usual real size of a block: a multiple of 256 up to 2 KiB, then 8 sizes per doubling. */
static inline uint64_t acre__trace_rounded(uint64_t bytes) {
    if (bytes == 0 || bytes > UINT64_C(1) << 62)
        return bytes;
    uint32_t top = 63 - (uint32_t)__builtin_clzll(bytes > 1 ? bytes - 1 : 1);
    uint64_t step = top < 11 ? 256 : UINT64_C(1) << (top - 3);
    return (bytes + step - 1) & ~(step - 1);
}

#endif
