/* The ledger records what the program has allocated, by which call and from where.
 *
 * It is a layer of the table behind the doors: it wraps the calls that allocate and free memory. It
 * adds an entry after the driver has allocated, and takes the entry out before the driver frees. If
 * the driver refuses the free, the ledger puts the entry back. So the driver cannot return the
 * address of an entry again while the entry is in the ledger. If two threads free the same memory
 * at once, one of them has taken the entry, and the driver may accept the free of the other. That
 * other thread then marks the entry as over, and the first thread ends it instead of putting it
 * back.
 *
 * Locks: one mutex, which is never held during a driver call, except to query which memory still
 * exists after a context was destroyed. */
#ifndef ACRE_STANDIN_LEDGER_H
#define ACRE_STANDIN_LEDGER_H

#include <stddef.h>
#include <stdint.h>

#include "base/tree.h"
#include "caller.h"
#include "driver/driver.h"

/* X(kind, title, is_memory). is_memory: the kind counts in the total of all memory. */
#define LEDGER_KINDS(X)                                                                            \
    X(DEVICE, "device", 1)           /* cuMemAlloc */                                              \
    X(ORDERED, "in stream order", 1) /* cuMemAllocAsync */                                         \
    X(PINNED, "pinned", 1)           /* cuMemHostAlloc */                                          \
    X(MANAGED, "managed", 1)         /* cuMemAllocManaged */                                       \
    X(CHUNK, "chunks", 1)            /* cuMemCreate; lives as long as a handle or a mapping */     \
    X(MAPPED, "mapped", 0)           /* cuMemMap */                                                \
    X(ADDRESSES, "addresses", 0)     /* cuMemAddressReserve */                                     \
    X(REGISTERED, "registered", 0)   /* cuMemHostRegister: the program's own pages */              \
    X(POOL, "pools", 0)              /* cuMemPoolCreate */

enum ledger_kind {
#define LEDGER_KIND(kind, title, is_memory) LEDGER_##kind,
    LEDGER_KINDS(LEDGER_KIND)
#undef LEDGER_KIND
        LEDGER_KIND_COUNT
};

struct ledger_entry {
    struct acre__node node; /* key: address, or handle */
    enum ledger_kind kind;
    size_t bytes;
    uint64_t number;                   /* order of creation, from 1 */
    struct acre_standin_caller caller; /* that allocated it */
    struct acre_standin_caller freer;  /* that freed it, if it was freed */
    int is_freed;
    int is_lost;    /* its context was destroyed before it was freed */
    int is_over;    /* freed by another thread than the one that has taken it */
    uint64_t ended; /* order in which entries were freed or lost, from 1 */
    struct ledger_entry *next_held;
    int is_back;                /* was put back */
    unsigned handles, mappings; /* of a chunk: references to it */
    struct ledger_entry *chunk; /* of a mapping; NULL: unknown */
    struct ledger_entry *next;  /* in a list of entries taken together, or of lost ones */
};

/* Counts for one kind, or for all memory. */
struct ledger_count {
    uint64_t made, freed, refused;
    uint64_t bytes, most_bytes, all_bytes; /* allocated now, high-water mark, total */
};

/* Wraps functions of the table with the ledger's, which call `inner`. */
void acre__ledger_wrap(struct acre__driver *table, const struct acre__driver *inner);

/* ---- entries ---- */

/* acre__ledger_add adds an entry for the thread's caller; acre__ledger_refuse counts a failed
 * call. */
void acre__ledger_add(enum ledger_kind kind, uint64_t key, size_t bytes);
void acre__ledger_refuse(enum ledger_kind kind);
/* Takes the entry at `key` out of the ledger. It may be of any kind that is kept in the same tree
 * as `kind`. Returns NULL if there is none. */
struct ledger_entry *acre__ledger_take(enum ledger_kind kind, uint64_t key);
/* Takes all mappings that begin in [address, address + bytes) out of the ledger, as a list. */
struct ledger_entry *acre__ledger_take_mappings(uint64_t address, size_t bytes);
/* Ends the entry that was taken at `key` if the driver succeeded, else puts it back. `entry` is
 * NULL if there was none. */
void acre__ledger_settle(enum ledger_kind kind, uint64_t key, struct ledger_entry *entry,
                         CUresult result);
/* Does what acre__ledger_settle does, for the mappings that begin in [address, address + bytes).
 * `list` are those that were taken. */
void acre__ledger_settle_mappings(uint64_t address, size_t bytes, struct ledger_entry *list,
                                  CUresult result);

/* Adds an entry for a mapping of the handle's chunk. */
void acre__ledger_add_mapping(uint64_t address, size_t bytes, uint64_t handle);
/* Adds a reference to the chunk with that handle, or to the chunk mapped at `address`. */
void acre__ledger_add_handle(uint64_t handle, uint64_t address);
void acre__ledger_drop_handle(uint64_t handle);

/* Called before and after a driver call that may destroy a context. Entries that the driver no
 * longer knows afterwards are lost. */
void acre__ledger_ending(void);
void acre__ledger_ended(const struct acre__driver *drv, CUresult result);

/* Empties the ledger in a forked child. */
void acre__ledger_forget(void);

/* ---- queries ---- */

/* Copies the entry that contains the address, or one that contained it recently. Returns 0 if there
 * is none or if the ledger cannot be read now. For signal handlers: never waits for long. */
int acre__ledger_find(uint64_t address, struct ledger_entry *out);
/* Returns the counts of a kind; LEDGER_KIND_COUNT: of all memory. */
struct ledger_count acre__ledger_count(enum ledger_kind kind);
/* Calls `visit` for every entry that was not freed, including lost ones, in no particular order.
 * The ledger is locked meanwhile. */
void acre__ledger_each(void (*visit)(const struct ledger_entry *entry, void *user), void *user);
const char *acre__ledger_title(enum ledger_kind kind);

/* Returns the calling thread's caller. */
struct acre_standin_caller acre__standin_caller(void);

/* ---- reports (ledger_report.c), on stderr ---- */

void acre__ledger_say_stats(uint64_t copied_bytes);
/* Returns the number of leaks. */
uint64_t acre__ledger_say_leaks(void);
/* Formats the call that returns to `address` as "program+0x11d8" into `text`. */
const char *acre__ledger_place(const void *address, char *text, size_t text_bytes);
/* Formats a size as "4.5 KiB" into `text`. */
const char *acre__ledger_bytes(uint64_t bytes, char *text, size_t text_bytes);

#endif
