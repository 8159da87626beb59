/* The records of this process in the file of `acre run`; see ledger_record.h. */
#include "ledger_record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/symbol.h"
#include "ledger.h"

/* A program with a finding in a loop must not fill the file. */
enum { RECORD_WRONGS = 64 };

static const size_t RECORD_BYTES = (size_t)RUN_CHUNK_LIMIT * RUN_CHUNK_BYTES;

struct record_site {
    struct acre_ledger_caller caller; /* call is NULL: an empty slot */
    uint32_t note;
};

static struct {
    pthread_mutex_t lock;
    struct run_file *file;            /* NULL: no report was requested */
    uint32_t process;                 /* number of this process's first chunk; 0: none yet */
    uint32_t blocks, notes;           /* current chunks; 0: none */
    uint32_t block_count, note_count; /* used records of the current chunks */
    struct run_block *free_blocks;    /* linked by `unused[0]` */
    struct record_site *sites;        /* hash table with linear probing */
    uint32_t site_count, site_room;   /* room is a power of two */
    uint64_t number;                  /* of the last note */
    uint32_t wrong_count;
    uint64_t refusal_count;
} record = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- a caller as text ---- */

const char *acre__record_place(const void *address, char *text, size_t text_bytes) {
    /* The call is before its return address, which may belong to another line. */
    uintptr_t at = (uintptr_t)address - 1;
    char file[RUN_NAME_BYTES];
    uint64_t offset;
    if (!address) {
        snprintf(text, text_bytes, "?");
        return text;
    }
    if (acre__ledger_module(at, file, sizeof file, &offset))
        snprintf(text, text_bytes, "%s+0x%" PRIx64, file, offset);
    else
        snprintf(text, text_bytes, "0x%" PRIxPTR, at);
    return text;
}

const char *acre__record_line(const void *address, char *text, size_t text_bytes) {
    char line[RUN_TEXT_BYTES];
    acre__record_place(address, text, text_bytes);
    acre__symbol_line((uintptr_t)address, line, sizeof line);
    size_t used = strlen(text);
    if (address && line[0])
        snprintf(text + used, text_bytes - used, " (%s)", line);
    return text;
}

/* ---- chunks; the lock is held ---- */

static struct run_head *chunk_head(uint32_t chunk) {
    return (struct run_head *)((char *)record.file + (size_t)chunk * RUN_CHUNK_BYTES);
}

static void *chunk_records(uint32_t chunk) {
    return (char *)chunk_head(chunk) + RUN_HEAD_BYTES;
}

/* Takes a chunk of the file; 0 if it is full. The first one of a process names it. The kind makes
 * the chunk visible to readers (run_file.h). */
static uint32_t chunk_take(enum run_chunk_kind kind) {
    uint32_t chunk, was;
    do {
        uint32_t count = chunk = atomic_load(&record.file->chunk_count);
        if (chunk >= RUN_CHUNK_LIMIT)
            return 0;
        was = 0;
        atomic_compare_exchange_strong(&chunk_head(chunk)->kind, &was, RUN_CHUNK_TAKEN);
        atomic_compare_exchange_strong(&record.file->chunk_count, &count, chunk + 1);
    } while (was);
    struct run_head *head = chunk_head(chunk), whole = {.kind = kind, .process = record.process};
    if (!record.process) {
        whole.process = chunk;
        whole.pid = head->pid = getpid();
        snprintf(whole.program, sizeof whole.program, "%s", program_invocation_short_name);
        memcpy(head->program, whole.program, sizeof whole.program);
    }
    head->process = whole.process;
    head->seal = acre__run_seal(&whole);
    atomic_store_explicit(&head->kind, kind, memory_order_release);
    return chunk;
}

static void head_add(uint32_t chunk, uint32_t state) {
    atomic_fetch_or_explicit(&chunk_head(chunk)->state, state * RUN_PROCESS_TWICE,
                             memory_order_relaxed);
}

/* Returns 1 if this process has a head in the file. The first record creates it. */
static int record_is_on(void) {
    if (!record.file)
        return 0;
    if (record.process)
        return 1;
    uint32_t chunk = chunk_take(RUN_CHUNK_NOTES);
    if (!chunk) {
        atomic_fetch_add_explicit(&record.file->dropped, 1, memory_order_relaxed);
        return 0;
    }
    record.process = record.notes = chunk;
    record.note_count = 0;
    return 1;
}

/* ---- records; the lock is held ---- */

static struct run_block *block_take(void) {
    struct run_block *block = record.free_blocks;
    if (block) {
        record.free_blocks = (struct run_block *)(uintptr_t)block->unused[0];
        return block;
    }
    if (!record.blocks || record.block_count == RUN_BLOCKS) {
        uint32_t chunk = chunk_take(RUN_CHUNK_BLOCKS);
        if (!chunk) {
            atomic_fetch_add_explicit(&record.file->dropped, 1, memory_order_relaxed);
            return NULL;
        }
        record.blocks = chunk;
        record.block_count = 0;
    }
    return (struct run_block *)chunk_records(record.blocks) + record.block_count++;
}

/* Returns the number of a new note without a type, and the note; 0 if the file is full. */
static uint32_t note_take(struct run_note **note_out) {
    if (record.note_count == RUN_NOTES) {
        uint32_t chunk = chunk_take(RUN_CHUNK_NOTES);
        if (!chunk) {
            atomic_fetch_add_explicit(&record.file->dropped, 1, memory_order_relaxed);
            return 0;
        }
        record.notes = chunk;
        record.note_count = 0;
    }
    struct run_note *note = (struct run_note *)chunk_records(record.notes) + record.note_count;
    note->number = ++record.number;
    *note_out = note;
    return record.notes * RUN_NOTE_BASE + record.note_count++;
}

static void note_publish(struct run_note *note, enum run_note_type type) {
    atomic_store_explicit(&note->type, type, memory_order_release);
}

/* ---- sites; the lock is held ---- */

/* Where a call was made. With the code that called the library, the library is enough: the user
 * knows that code, and does not know the lines of the library. */
static const void *site_place(const struct acre_ledger_caller *caller) {
    return caller->from ? caller->library : caller->address;
}

static int site_is_same(const struct acre_ledger_caller *a, const struct acre_ledger_caller *b) {
    return a->call == b->call && a->from == b->from && site_place(a) == site_place(b);
}

static struct record_site *site_slot(struct record_site *sites, uint32_t room,
                                     const struct acre_ledger_caller *caller) {
    uint64_t hash =
        ((uintptr_t)site_place(caller) ^ (uintptr_t)caller->from ^ (uintptr_t)caller->call >> 4) *
        UINT64_C(0x9e3779b97f4a7c15);
    uint32_t at = (uint32_t)(hash >> 32) & (room - 1);
    while (sites[at].caller.call && !site_is_same(&sites[at].caller, caller))
        at = (at + 1) & (room - 1);
    return &sites[at];
}

static int sites_grow(void) {
    uint32_t room = record.site_room ? record.site_room * 2 : 64;
    struct record_site *sites = calloc(room, sizeof *sites);
    if (!sites)
        return 0;
    for (uint32_t i = 0; i < record.site_room; i++) {
        if (record.sites[i].caller.call)
            *site_slot(sites, room, &record.sites[i].caller) = record.sites[i];
    }
    free(record.sites);
    record.sites = sites;
    record.site_room = room;
    return 1;
}

/* Returns the site's slot if it is known, else NULL. */
static const struct record_site *site_find(const struct acre_ledger_caller *caller) {
    if (!record.site_room)
        return NULL;
    const struct record_site *site = site_slot(record.sites, record.site_room, caller);
    return site->caller.call ? site : NULL;
}

/* Writes the note of a new site. */
static uint32_t site_add(const struct acre_ledger_caller *caller, const char *place) {
    struct run_note *note;
    if (record.site_count * 2 >= record.site_room && !sites_grow())
        return 0;
    uint32_t number = note_take(&note);
    if (!number)
        return 0;
    snprintf(note->name, sizeof note->name, "%s", caller->call);
    snprintf(note->text, sizeof note->text, "%s", place);
    note_publish(note, RUN_NOTE_SITE);
    *site_slot(record.sites, record.site_room, caller) = (struct record_site){*caller, number};
    record.site_count++;
    return number;
}

/* The text is made without a lock: dladdr takes the loader's lock, which a thread may hold that
 * waits here, in a constructor of a library. */
uint32_t acre__record_site(const struct acre_ledger_caller *caller) {
    char place[RUN_TEXT_BYTES], from[RUN_TEXT_BYTES / 2];
    uint32_t number = 0;
    if (!record.file || !caller->call)
        return 0;
    pthread_mutex_lock(&record.lock);
    const struct record_site *site = site_find(caller);
    number = site ? site->note : 0;
    pthread_mutex_unlock(&record.lock);
    if (number)
        return number;
    acre__record_line(caller->address, place, sizeof place);
    if (caller->from) {
        size_t used = strlen(place);
        snprintf(place + used, sizeof place - used, "%s%s", RUN_FROM,
                 acre__record_line(caller->from, from, sizeof from));
    }
    pthread_mutex_lock(&record.lock);
    site = site_find(caller);
    if (site)
        number = site->note;
    else if (record_is_on())
        number = site_add(caller, place);
    pthread_mutex_unlock(&record.lock);
    return number;
}

/* ---- start ---- */

/* A thread that does not exist in the child may hold the lock. The child begins its own records
 * when it uses CUDA. */
static void record_in_child(void) {
    pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    record.lock = fresh;
    acre__symbols_in_child();
    record.process = record.blocks = record.notes = 0;
    record.free_blocks = NULL;
    record.sites = NULL; /* not freed: the lock of malloc may be held, too */
    record.site_count = record.site_room = record.wrong_count = 0;
    record.refusal_count = 0;
}

static void *record_map_shared(const char *path) {
    int fd = open(path, O_RDWR | O_CLOEXEC);
    struct stat info;
    if (fd < 0)
        return NULL;
    void *base = MAP_FAILED;
    if (fstat(fd, &info) == 0 && info.st_size == (off_t)RECORD_BYTES)
        base = mmap(NULL, RECORD_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (base != MAP_FAILED && ((const struct run_file *)base)->magic != RUN_MAGIC) {
        munmap(base, RECORD_BYTES); /* not the tool's file: the tool has ended */
        base = MAP_FAILED;
    }
    return base == MAP_FAILED ? NULL : base;
}

int acre__record_begin(const char *path, int has_lines) {
    void *base = path ? record_map_shared(path) : NULL;
    if (!base) {
        base = mmap(NULL, RECORD_BYTES, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (base == MAP_FAILED)
            return 0;
        struct run_file *file = base;
        file->magic = RUN_MAGIC;
        atomic_store_explicit(&file->chunk_count, 1, memory_order_relaxed);
    }
    record.file = base;
    if (has_lines)
        acre__symbols_use_lines();
    pthread_atfork(NULL, NULL, record_in_child); /* fails when out of memory */
    return 1;
}

/* ---- records ---- */

struct run_block *acre__record_block(enum run_kind kind, uint64_t key, size_t bytes,
                                     uint64_t number, uint32_t site) {
    struct run_block *block = NULL;
    if (!record.file)
        return NULL;
    pthread_mutex_lock(&record.lock);
    if (record_is_on() && (block = block_take())) {
        block->kind = kind;
        block->site = site;
        block->count = 1;
        block->key = key;
        block->bytes = bytes;
        block->number = number;
        atomic_store_explicit(&block->state, RUN_BLOCK_LIVE, memory_order_release);
    }
    pthread_mutex_unlock(&record.lock);
    return block;
}

void acre__record_block_end(struct run_block *block) {
    if (!block)
        return;
    pthread_mutex_lock(&record.lock);
    atomic_store_explicit(&block->state, RUN_BLOCK_FREE, memory_order_relaxed);
    block->unused[0] = (uintptr_t)record.free_blocks;
    record.free_blocks = block;
    pthread_mutex_unlock(&record.lock);
}

void acre__record_block_show(struct run_block *block, int is_shown) {
    if (!block)
        return;
    pthread_mutex_lock(&record.lock);
    atomic_store_explicit(&block->state, is_shown ? RUN_BLOCK_LIVE : RUN_BLOCK_FREE,
                          memory_order_relaxed);
    pthread_mutex_unlock(&record.lock);
}

void acre__record_block_lose(struct run_block *block) {
    if (!block)
        return;
    pthread_mutex_lock(&record.lock);
    atomic_store_explicit(&block->state, RUN_BLOCK_LOST, memory_order_relaxed);
    pthread_mutex_unlock(&record.lock);
}

void acre__record_acre(uint64_t blocks, uint64_t bytes, uint32_t site) {
    struct run_block *block = acre__record_block(RUN_ACRE, 0, bytes, UINT64_MAX, site);
    if (!block)
        return;
    pthread_mutex_lock(&record.lock);
    block->count = blocks < UINT32_MAX ? (uint32_t)blocks : UINT32_MAX;
    pthread_mutex_unlock(&record.lock);
}

void acre__record_count(enum run_kind kind, const struct run_count *count) {
    if (!record.file)
        return;
    pthread_mutex_lock(&record.lock);
    if (record_is_on())
        chunk_head(record.process)->counts[kind] = *count;
    pthread_mutex_unlock(&record.lock);
}

/* Finds the note with that type, site, code and name. Programs have few of them. */
static struct run_note *note_find(enum run_note_type type, uint32_t site, uint32_t code,
                                  const char *name) {
    for (uint32_t chunk = record.process; chunk <= record.notes; chunk++) {
        const struct run_head *head = chunk_head(chunk);
        if (head->process != record.process || head->kind != RUN_CHUNK_NOTES)
            continue;
        struct run_note *notes = chunk_records(chunk);
        for (uint32_t i = 0; i < RUN_NOTES; i++) {
            if (notes[i].type == type && notes[i].site == site && notes[i].code == code &&
                strncmp(notes[i].name, name, sizeof notes[i].name) == 0)
                return &notes[i];
        }
    }
    return NULL;
}

void acre__record_refusal(uint32_t site, uint32_t code, const char *error, const char *why) {
    if (!record.file)
        return;
    pthread_mutex_lock(&record.lock);
    if (record_is_on()) {
        record.refusal_count++;
        struct run_note *note = note_find(RUN_NOTE_CALL, site, code, error);
        if (note) {
            atomic_fetch_add_explicit(&note->count, 1, memory_order_relaxed);
        } else if (note_take(&note)) {
            note->site = site;
            note->code = code;
            atomic_store_explicit(&note->count, 1, memory_order_relaxed);
            snprintf(note->name, sizeof note->name, "%s", error);
            snprintf(note->text, sizeof note->text, "%s", why);
            note_publish(note, RUN_NOTE_CALL);
        }
    }
    pthread_mutex_unlock(&record.lock);
}

int acre__record_has_refusals(void) {
    pthread_mutex_lock(&record.lock);
    int has = record.refusal_count != 0;
    pthread_mutex_unlock(&record.lock);
    return has;
}

void acre__record_wrong(const char *text) {
    struct run_note *note;
    pthread_mutex_lock(&record.lock);
    if (record_is_on()) {
        atomic_fetch_add_explicit(&chunk_head(record.process)->wrong, 1, memory_order_relaxed);
        if (record.wrong_count < RECORD_WRONGS && note_take(&note)) {
            record.wrong_count++;
            snprintf(note->text, sizeof note->text, "%s", text);
            note_publish(note, RUN_NOTE_WRONG);
        }
    }
    pthread_mutex_unlock(&record.lock);
}

int acre__record_has_wrongs(void) {
    pthread_mutex_lock(&record.lock);
    int has = record.wrong_count != 0;
    pthread_mutex_unlock(&record.lock);
    return has;
}

_Atomic uint64_t *acre__record_counter(const char *call) {
    struct run_note *note = NULL;
    pthread_mutex_lock(&record.lock);
    if (record_is_on() && !(note = note_find(RUN_NOTE_COUNTED, 0, 0, call)) && note_take(&note)) {
        snprintf(note->name, sizeof note->name, "%s", call);
        note_publish(note, RUN_NOTE_COUNTED);
    }
    pthread_mutex_unlock(&record.lock);
    return note ? &note->count : NULL;
}

void acre__record_state(uint32_t state) {
    if (!record.file)
        return;
    pthread_mutex_lock(&record.lock);
    if (record_is_on())
        head_add(record.process, state);
    pthread_mutex_unlock(&record.lock);
}

/* ---- the report ---- */

int acre__record_is_free(void) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    if (pthread_mutex_timedlock(&record.lock, &until) != 0)
        return 0;
    pthread_mutex_unlock(&record.lock);
    return 1;
}

/* Without the lock, which an interrupted function may hold. */
void acre__record_leave(void) {
    if (record.file && record.process)
        head_add(record.process, RUN_PROCESS_LEFT);
}

void acre__record_end(void) {
    pthread_mutex_lock(&record.lock);
    if (record.file && record.process)
        head_add(record.process, RUN_PROCESS_REPORTED);
    pthread_mutex_unlock(&record.lock);
}

void acre__record_copied(uint64_t copied_bytes) {
    static _Atomic uint64_t last; /* most calls copy nothing */
    if (!record.file || atomic_load_explicit(&last, memory_order_relaxed) == copied_bytes)
        return;
    atomic_store_explicit(&last, copied_bytes, memory_order_relaxed);
    pthread_mutex_lock(&record.lock);
    if (record_is_on())
        chunk_head(record.process)->copied_bytes = copied_bytes;
    pthread_mutex_unlock(&record.lock);
}

uint64_t acre__record_report(FILE *out, unsigned wants) {
    struct run_collection run;
    uint64_t found = 0;
    pthread_mutex_lock(&record.lock);
    if (record_is_on()) {
        acre__run_collect(record.file, record.process, &run);
        if (wants & RUN_WANT_JSON)
            acre__run_print_json(out, &run, wants, "exit");
        else
            acre__run_print(out, &run, wants);
        found = acre__run_found(&run, wants);
        acre__run_drop(&run);
        head_add(record.process, RUN_PROCESS_REPORTED | (found ? RUN_PROCESS_FOUND : 0));
    }
    pthread_mutex_unlock(&record.lock);
    return found;
}
