/* The ledger: what the program holds, which call made it and where in the program that call stands.
 *
 * It is a layer of the table behind the doors: functions in front of the calls that hand out memory
 * and of those that take it back. An entry is made after the driver has given something, and taken
 * out before the driver is asked to take it back (and put in again if that is refused): so the
 * address of an entry cannot be given out a second time while the entry is there. Of two threads
 * that free the same at once, one has the entry in its hand and maybe the other the driver's
 * consent: the latter then marks the entry, which ends when the former lets go of it.
 *
 * Locks: one mutex of its own, which is never held while the driver is called, but for the question
 * whether memory is still there after a context has ended. */
#ifndef ACRE_STANDIN_LEDGER_H
#define ACRE_STANDIN_LEDGER_H

#include <stddef.h>
#include <stdint.h>

#include "base/tree.h"
#include "caller.h"
#include "driver/driver.h"

/* X(kind, title, is it memory that counts in the sum of all). */
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
    uint64_t number;                   /* of entries made, from 1 */
    struct acre_standin_caller caller; /* that it is charged to */
    struct acre_standin_caller freer;  /* who freed it, if it was */
    int is_freed;
    int is_lost;    /* its context ended before it was freed */
    int is_over;    /* freed by another thread than the one that has it in hand */
    uint64_t ended; /* of entries that were freed or lost, from 1 */
    struct ledger_entry *next_held;
    int is_back;                /* was put in again */
    unsigned handles, mappings; /* of a chunk: what keeps it */
    struct ledger_entry *chunk; /* of a mapping; NULL: not known */
    struct ledger_entry *next;  /* of entries taken out together, and of lost ones */
};

/* What happened to one kind, or to all memory. */
struct ledger_count {
    uint64_t made, freed, refused;
    uint64_t bytes, most_bytes, all_bytes; /* held now, held at one time, ever handed out */
};

/* Puts the ledger's functions in front of the table's own, which are called through `inner`. */
void acre__ledger_wrap(struct acre__driver *table, const struct acre__driver *inner);

/* ---- entries ---- */

/* Charged to the thread's caller. */
void acre__ledger_add(enum ledger_kind kind, uint64_t key, size_t bytes);
void acre__ledger_refuse(enum ledger_kind kind);
/* Out of the ledger: the entry at `key`, of any kind that is kept where `kind` is; NULL: none. */
struct ledger_entry *acre__ledger_take(enum ledger_kind kind, uint64_t key);
/* All mappings that begin in [address, address + bytes), as a list. */
struct ledger_entry *acre__ledger_take_mappings(uint64_t address, size_t bytes);
/* The end of what was taken out at `key`, NULL if it was nothing: it was freed if the driver said
 * so, else it is back. */
void acre__ledger_settle(enum ledger_kind kind, uint64_t key, struct ledger_entry *entry,
                         CUresult result);
/* The same of the mappings that begin in [address, address + bytes), of which `list` were taken. */
void acre__ledger_settle_mappings(uint64_t address, size_t bytes, struct ledger_entry *list,
                                  CUresult result);

/* A mapping of the chunk behind a handle. */
void acre__ledger_add_mapping(uint64_t address, size_t bytes, uint64_t handle);
/* One more handle for the chunk: of that number, or of the mapping at `address`. */
void acre__ledger_add_handle(uint64_t handle, uint64_t address);
void acre__ledger_drop_handle(uint64_t handle);

/* Around a call that may end a context: what the driver does not know any more after it is lost. */
void acre__ledger_ending(void);
void acre__ledger_ended(const struct acre__driver *drv, CUresult result);

/* In a child made by fork: the ledger is empty. */
void acre__ledger_forget(void);

/* ---- questions ---- */

/* A copy of the entry that the address lies in, or else lay in, if that is not too long ago. 0:
 * none, or the ledger cannot be read now. For the handler of a signal: it never waits for long. */
int acre__ledger_find(uint64_t address, struct ledger_entry *out);
/* Of a kind; LEDGER_KIND_COUNT: of all memory. */
struct ledger_count acre__ledger_count(enum ledger_kind kind);
/* Calls `visit` with every entry that was not freed, lost ones too, in no order. The ledger is
 * locked meanwhile. */
void acre__ledger_each(void (*visit)(const struct ledger_entry *entry, void *user), void *user);
const char *acre__ledger_title(enum ledger_kind kind);

/* The calling thread's caller. */
struct acre_standin_caller acre__standin_caller(void);

/* ---- reports (ledger_report.c), on stderr ---- */

void acre__ledger_say_stats(uint64_t copied_bytes);
/* Returns how many entries were not freed. */
uint64_t acre__ledger_say_leaks(void);
/* "program+0x11d8" for the call that returns to `address`, into `text`. */
const char *acre__ledger_place(const void *address, char *text, size_t text_bytes);
/* "4.5 KiB" */
const char *acre__ledger_bytes(uint64_t bytes, char *text, size_t text_bytes);

#endif
