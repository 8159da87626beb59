/* The file in which the processes under `acre run` record what they do with memory.
 *
 * `acre run` creates it as an anonymous file and stays alive to read it, so that it can still
 * report when a process aborts or is killed. The stand-in of libcuda.so.1 maps the file shared and
 * writes to it (ledger/ledger_record.c). A store to a shared mapping survives the process, so the
 * file needs no flush. The report (run_collect.c) reads it, in the process at exit or in the tool.
 *
 * Layout. The file consists of chunks. Chunk 0 has the settings and the suppressions. Every other
 * chunk belongs to one process: it begins with a head, which in the first chunk of a process
 * describes the process, and contains records of one size.
 *
 * Consistency. A writer fills a record and then stores its state or type with release order. A
 * process that ends between the two has not recorded the call, and nothing else is lost. A reader
 * trusts no field: any process under `acre run` can write anything to the file. A seal on each head
 * shows that something did.
 *
 * Taking a chunk. The process sets the kind of the first free chunk from 0 to RUN_CHUNK_TAKEN, then
 * raises the count, fills the head and stores the kind. Others raise the count too, so that a
 * process that is killed here blocks none. So no chunk below the count has the kind 0. */
#ifndef ACRE_RUN_FILE_H
#define ACRE_RUN_FILE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* X(kind, title, is_memory). is_memory: the kind counts in the total of all memory. */
#define RUN_KINDS(X)                                                                               \
    X(DEVICE, "device", 1)           /* cuMemAlloc */                                              \
    X(ORDERED, "in stream order", 1) /* cuMemAllocAsync */                                         \
    X(PINNED, "pinned", 1)           /* cuMemHostAlloc */                                          \
    X(MANAGED, "managed", 1)         /* cuMemAllocManaged */                                       \
    X(CHUNK, "chunks", 1)            /* cuMemCreate; lives as long as a handle or a mapping */     \
    X(ARRAY, "arrays", 1)            /* cuArrayCreate, cuMipmappedArrayCreate */                   \
    X(MAPPED, "mapped", 0)           /* cuMemMap */                                                \
    X(ADDRESSES, "addresses", 0)     /* cuMemAddressReserve */                                     \
    X(REGISTERED, "registered", 0)   /* cuMemHostRegister: the program's own pages */              \
    X(POOL, "pools", 0)              /* cuMemPoolCreate */                                         \
    X(OPENED, "acre devices", 0)     /* acre_open, in a program that uses libacre */               \
    X(ACRE, "acre", 0)               /* blocks of libacre that were not freed before acre_close */

enum run_kind {
#define RUN_KIND(kind, title, is_memory) RUN_##kind,
    RUN_KINDS(RUN_KIND)
#undef RUN_KIND
        RUN_KIND_COUNT
};

/* Counts for one kind, or for all memory. */
struct run_count {
    uint64_t made, freed, refused;
    uint64_t bytes, most_bytes, all_bytes; /* allocated now, high-water mark, total */
};

/* Of the anonymous file for reports as JSON; processes write to no other. */
#define RUN_JSON_NAME "acre-run-json"

#define RUN_MAGIC UINT64_C(0x316e757265726361) /* "acrerun1" */

enum {
    RUN_CHUNK_BYTES = 1 << 16,
    RUN_CHUNK_LIMIT = 1 << 14, /* 1 GiB in all; pages that nobody writes take no memory */
    RUN_HEAD_BYTES = 1024,
    RUN_RULE_LIMIT = 1024,     /* suppressions */
    RUN_RULE_BYTES = 40 << 10, /* all suppressions as text */
    RUN_NAME_BYTES = 96,
    RUN_TEXT_BYTES = 888,
    RUN_PROGRAM_BYTES = 64
};

/* What to report; also words of ACRE_RUN. */
#define RUN_WANTS(X)                                                                               \
    X(STATS, "stats", 1)                                                                           \
    X(LEAKS, "leaks", 2)                                                                           \
    X(ERRORS, "errors", 4)                                                                         \
    X(CHECK, "check", 8)                                                                           \
    X(JSON, "json", 16)                                                                            \
    X(WATCH, "watch", 32) /* the shim records, not a stand-in */

enum run_want {
#define RUN_WANT(want, word, bit) RUN_WANT_##want = (bit),
    RUN_WANTS(RUN_WANT)
#undef RUN_WANT
};

/* Chunk 0. */
struct run_file {
    uint64_t magic;
    _Atomic uint32_t chunk_count; /* chunks in use, with chunk 0 */
    _Atomic uint32_t dropped;     /* records that found no room */
    uint32_t rule_count;
    uint32_t rule_bytes; /* used bytes of `rules` */
    _Atomic uint32_t rule_used[RUN_RULE_LIMIT];
    char rules[RUN_RULE_BYTES]; /* lines such as leak:cudaMalloc, each terminated by 0 */
};

enum run_process_state {
    RUN_PROCESS_USED = 1,       /* it has initialised CUDA, or opened a device of libacre */
    RUN_PROCESS_FAILED = 2,     /* it could not use CUDA; a message has said why */
    RUN_PROCESS_REPORTED = 4,   /* its report was printed */
    RUN_PROCESS_IS_PROGRAM = 8, /* the program itself, not one that it started */
    RUN_PROCESS_FOUND = 16,     /* its report had findings that change exit status 0 */
    RUN_PROCESS_LEFT = 32,      /* it could not print its report */
    RUN_PROCESS_TWICE = 0x10001 /* states are stored times this: damage makes the halves differ */
};

/* Begins every chunk but the first. */
struct run_head {
    _Atomic uint32_t kind; /* enum run_chunk_kind */
    uint32_t process;      /* number of the process's first chunk */
    uint64_t seal;         /* acre__run_seal */
    /* Of a process, in its first chunk. */
    int64_t pid;
    _Atomic uint32_t state; /* enum run_process_state, times RUN_PROCESS_TWICE */
    _Atomic uint32_t wrong; /* findings of the soft driver, with those that found no room */
    _Atomic uint64_t copied_bytes;
    char program[RUN_PROGRAM_BYTES];
    struct run_count counts[RUN_KIND_COUNT + 1]; /* the last one is for all memory */
};

/* A hash of the fields that never change (FNV-1a). */
static inline uint64_t acre__run_seal(const struct run_head *head) {
    const uint64_t prime = 0x100000001b3;
    uint64_t seal = (RUN_MAGIC ^ head->process) * prime;
    seal = (seal ^ head->kind) * prime;
    seal = (seal ^ (uint64_t)head->pid) * prime;
    for (size_t i = 0; i < sizeof head->program; i++)
        seal = (seal ^ (unsigned char)head->program[i]) * prime;
    return seal;
}

enum run_chunk_kind { RUN_CHUNK_BLOCKS = 1, RUN_CHUNK_NOTES = 2, RUN_CHUNK_TAKEN = 0x656b6174 };
enum run_block_state { RUN_BLOCK_FREE, RUN_BLOCK_LIVE, RUN_BLOCK_LOST };

/* A live allocation, or one that was lost with its context. */
struct run_block {
    _Atomic uint32_t state;
    uint32_t kind;  /* enum run_kind */
    uint32_t site;  /* note of the call that allocated it; 0: unknown */
    uint32_t count; /* blocks in this record; more than 1 for RUN_ACRE only */
    uint64_t key;   /* address, or handle */
    uint64_t bytes;
    uint64_t number; /* order of creation, from 1 */
    uint64_t unused[3];
};

/* In the text of a site: between the place in a library and the code that called the library. */
#define RUN_FROM ", called from "

enum run_note_type {
    RUN_NOTE_NONE,
    RUN_NOTE_SITE,   /* name: the call; text: the place, such as program+0x11d8 (main at
                    program.c:14) */
    RUN_NOTE_CALL,   /* a refused call. name: the error; text: why, or empty */
    RUN_NOTE_WRONG,  /* text: a finding of the soft driver */
    RUN_NOTE_COUNTED /* name: a function that gets or frees memory which is not recorded */
};

struct run_note {
    _Atomic uint32_t type;
    uint32_t site; /* of a refused call */
    uint32_t code;
    uint32_t unused;
    _Atomic uint64_t count;
    uint64_t number;
    uint64_t spare;
    char name[RUN_NAME_BYTES];
    char text[RUN_TEXT_BYTES];
};

enum {
    RUN_BLOCKS = (RUN_CHUNK_BYTES - RUN_HEAD_BYTES) / (int)sizeof(struct run_block),
    RUN_NOTES = (RUN_CHUNK_BYTES - RUN_HEAD_BYTES) / (int)sizeof(struct run_note),
    RUN_NOTE_BASE = 1 << 8 /* a note's number is its chunk times this, plus its index */
};

_Static_assert(sizeof(struct run_file) <= RUN_CHUNK_BYTES, "settings fit a chunk");
_Static_assert(sizeof(struct run_head) <= RUN_HEAD_BYTES, "a head fits");
_Static_assert(sizeof(struct run_block) == 64 && sizeof(struct run_note) == 1024, "sizes");
_Static_assert(RUN_NOTES <= RUN_NOTE_BASE, "a note has a number");

#endif
