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
#ifndef ACRE_LEDGER_LEDGER_H
#define ACRE_LEDGER_LEDGER_H

#include <stddef.h>
#include <stdint.h>

#include "base/tree.h"
#include "caller.h"
#include "driver/driver.h"
#include "ledger_record.h"

struct ledger_entry {
    struct acre__node node; /* key: address, or handle */
    enum run_kind kind;
    size_t bytes;
    uint64_t number;                  /* order of creation, from 1 */
    struct acre_ledger_caller caller; /* that allocated it */
    struct acre_ledger_caller freer;  /* that freed it, if it was freed */
    int is_freed;
    int is_lost;    /* its context was destroyed before it was freed */
    int is_over;    /* freed by another thread than the one that has taken it */
    uint64_t ended; /* order in which entries were freed or lost, from 1 */
    struct ledger_entry *next_held;
    int is_back;                /* was put back */
    unsigned handles, mappings; /* of a chunk: references to it */
    struct ledger_entry *chunk; /* of a mapping; NULL: unknown */
    unsigned counted;           /* the last pass of acre__ledger_rows that has counted it */
    struct run_block *record;   /* for the report; NULL: none */
    struct ledger_entry *next;  /* in a list of entries taken together, or of lost ones */
};

/* Memory that a caller has allocated on a device. */
struct ledger_row {
    uint64_t address; /* 0: a chunk that is not mapped, or an array */
    uint64_t bytes;
    struct acre_ledger_caller caller;
};

/* The limit of `acre run --limit`, in bytes: what counts of this process (`own`), of other
 * processes
 * (`others`; 0 with --limit-each), and what is left. */
struct ledger_limit {
    uint64_t limit, own, others, left;
    uint64_t refused, refused_bytes; /* calls of the program, and the bytes of the last one */
    int is_each;                     /* others have limits of their own */
};

/* ---- what the library that contains the ledger provides ---- */

/* Returns the table of the driver without fault injection, for the ledger's own queries. */
const struct acre__driver *acre__ledger_driver(void);
/* Returns 1 once cuInit has succeeded in this process. */
int acre__ledger_is_used(void);
/* Returns 1 if the program has called cuInit, whatever it returned. */
int acre__ledger_is_called(void);
/* Returns 1 if the program has loaded a driver whose calls the library would have to see. */
int acre__ledger_is_driver_loaded(void);
/* Returns 1 if that driver is initialised: somebody has called cuInit. */
int acre__ledger_is_driver_initialised(void);
/* Returns 1 if the process has another driver, whose calls the library cannot see: in a namespace
 * of its own, or, with *is_in_base 1, in the program's. */
int acre__ledger_has_second_driver(int *is_in_base);
/* Returns 1 if the program cannot use CUDA here; a message has said why. */
int acre__ledger_has_failed(void);
/* 1 in the shim, which watches a driver that the program has; 0 in a stand-in, which is the driver.
 * The word `watch` in ACRE_RUN says which of the two reports. */
extern const int acre__ledger_watches;
/* Returns 1 if descriptor 2 is what it was when the process began. If the program has closed it, it
 * may have opened a file of its own there, which must not get acre's messages. */
int acre__ledger_has_stderr(void);
/* Prints a line to stderr, after "acre: ", unless that is a file of the program's own. */
__attribute__((format(printf, 1, 2))) void acre__ledger_say(const char *format, ...);
/* Returns 1 if no thread holds the ledger's lock, or none for long: a signal handler that has
 * interrupted one of its functions must not use the others. */
int acre__ledger_is_free(void);
/* Gets the memory limit of this process. Returns 0 if there is none. */
int acre__ledger_limit(struct ledger_limit *limit_out);
/* Returns the process of the program that `acre run` has started. */
int acre__ledger_program(void);
/* Returns the text after `word` in ACRE_RUN, such as "limit=", or NULL without this word. */
const char *acre__ledger_word(const char *word);
/* Copies the first of the errors that the driver itself has found to `text` and returns their
 * number; 0 for a driver that looks for none. */
size_t acre__ledger_findings(char *text, size_t bytes);
/* Returns how many frames of a call stack to look at, by ACRE_STACKS; 0: none. `is_default`:
 * without the variable, stacks are on. */
unsigned acre__ledger_stack_depth(int is_default);
/* Sets `from` and `library` of the thread's caller, if a library of NVIDIA's has made the call and
 * other code is among the next `depth` frames of the stack. */
void acre__ledger_outside(struct acre_ledger_caller *caller, unsigned depth);
/* Finds how much memory of a device this process and all others have. Returns 0 if that is not
 * known. */
int acre__ledger_processes(CUdevice device, uint64_t *own_out, uint64_t *others_out);
/* Finds the name of the loaded object that contains the address, without folders, and the offset in
 * its file. Returns 0 if none does. */
int acre__ledger_module(uintptr_t address, char *name, size_t name_bytes, uint64_t *offset);

/* ---- the table ---- */

/* Ends a door of the driver with its result, which it returns; see acre_ledger_leave. */
CUresult acre__ledger_end(const struct acre_ledger_caller *before, CUresult result);

/* Wraps functions of the table with the ledger's, which call `inner`. */
void acre__ledger_wrap(struct acre__driver *table, const struct acre__driver *inner);

/* ---- entries ---- */

/* acre__ledger_add adds an entry for the thread's caller; acre__ledger_refuse counts a failed
 * call. */
void acre__ledger_add(enum run_kind kind, uint64_t key, size_t bytes);
void acre__ledger_refuse(enum run_kind kind);
/* Takes the entry at `key` out of the ledger. It may be of any kind that is kept in the same tree
 * as `kind`. Returns NULL if there is none. */
struct ledger_entry *acre__ledger_take(enum run_kind kind, uint64_t key);
/* Takes all mappings that begin in [address, address + bytes) out of the ledger, as a list. */
struct ledger_entry *acre__ledger_take_mappings(uint64_t address, size_t bytes);
/* Ends the entry that was taken at `key` if the driver succeeded, else puts it back. `entry` is
 * NULL if there was none. */
void acre__ledger_settle(enum run_kind kind, uint64_t key, struct ledger_entry *entry,
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
/* Returns the counts of a kind; RUN_KIND_COUNT: of all memory. */
struct run_count acre__ledger_count(enum run_kind kind);
/* Copies up to `room` rows of live memory that devices have, and returns how many there are. A
 * chunk counts once, however often it is mapped. */
size_t acre__ledger_rows(struct ledger_row *rows, size_t room);
/* Sets what the thread's call has asked for, for the report at an out-of-memory error. */
void acre__ledger_request(enum run_kind kind, size_t bytes);
/* Switches call stacks on; see acre__ledger_stack_depth. */
void acre__ledger_use_stacks(unsigned depth);
/* Finds who called NVIDIA's library, for the thread's caller. Call it without a lock. */
void acre__ledger_find_outside(void);
/* Returns the calling thread's caller. */
struct acre_ledger_caller acre__ledger_caller(void);
/* Sets why the thread's current call is refused, for the report. The first text of a call counts.
 */
void acre__ledger_why(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- why a call was refused (ledger_why.c) ---- */

/* Explain why the driver refused to free `address`, or to access [address, address + bytes), by
 * what the ledger knows about the address. The thread's refused call is recorded with this text. */
void acre__ledger_why_free(uint64_t address);
void acre__ledger_why_access(uint64_t address, size_t bytes);
/* Explains why the driver refused to allocate; 0 bytes: the size is not known. */
void acre__ledger_why_memory(size_t bytes);
/* Wraps copies and fills so that a refused one is explained. */
void acre__ledger_why_wrap(struct acre__driver *table, const struct acre__driver *inner);

#endif
