/* The account of this process in the file that all processes of the run share; see shim_limit.h.
 *
 * The file is opened as /proc/TOOL/fd/N, where TOOL is `acre run`. If that fails, the program gets
 * no device memory: a limit that is not kept would go unnoticed. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ledger.h"
#include "limit_file.h"
#include "shim_limit.h"
#include "shim_limit_records.h"

static struct {
    pthread_mutex_t lock;                    /* of opening the file and taking a slot */
    _Atomic(struct limit_file *) file;       /* NULL: not opened yet, or not possible */
    _Atomic(struct limit_slot *) slot;       /* of this process; NULL: none yet, or none is free */
    _Atomic int has_failed, is_slot_less;    /* a message has said why */
    _Atomic uint64_t refused, refused_bytes; /* requests, and the bytes of the last one */
} account = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The environment of the process decides once. */
int acre__limit_is_on(void) {
    enum { UNKNOWN, OFF, ON };
    static _Atomic int known = UNKNOWN;
    int now = atomic_load_explicit(&known, memory_order_relaxed);
    if (now == UNKNOWN) {
        now = acre__ledger_word("limit=") ? ON : OFF;
        atomic_store_explicit(&known, now, memory_order_relaxed);
    }
    return now == ON;
}

/* ---- the file ---- */

/* The tool may have ended, and another process may have its number. */
static int account_is_ours(const char *path) {
    static const char wanted[] = "/memfd:" LIMIT_NAME;
    char target[sizeof wanted] = "";
    if (readlink(path, target, sizeof target - 1) < 0)
        return 0;
    errno = ESTALE;
    return strcmp(target, wanted) == 0;
}

static struct limit_file *account_map(const char *path) {
    struct stat info;
    int fd = account_is_ours(path) ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return NULL;
    void *base = MAP_FAILED;
    if (fstat(fd, &info) == 0 && info.st_size >= (off_t)sizeof(struct limit_file))
        base = mmap(NULL, sizeof(struct limit_file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (base == MAP_FAILED)
        return NULL;
    struct limit_file *file = base;
    return file->magic == LIMIT_MAGIC ? file : NULL;
}

/* Opens the file, with the lock held. `is_silent`: a failure is not final, and prints nothing. */
static void account_open(int is_silent) {
    char path[64];
    long process = 0, fd = 0;
    const char *word = acre__ledger_word("limit=");
    if (!word || sscanf(word, "%ld/%ld", &process, &fd) != 2)
        return;
    snprintf(path, sizeof path, "/proc/%ld/fd/%ld", process, fd);
    struct limit_file *file = account_map(path);
    atomic_store_explicit(&account.file, file, memory_order_release);
    if (!file && !is_silent &&
        !atomic_exchange_explicit(&account.has_failed, 1, memory_order_relaxed))
        acre__ledger_say("cannot open the memory limit of 'acre run', process %ld: %s; this "
                         "program gets no device memory",
                         process, strerror(errno));
}

struct limit_file *acre__limit_file(void) {
    struct limit_file *file = atomic_load_explicit(&account.file, memory_order_acquire);
    if (file || atomic_load_explicit(&account.has_failed, memory_order_relaxed))
        return file;
    pthread_mutex_lock(&account.lock);
    if (!atomic_load_explicit(&account.file, memory_order_relaxed))
        account_open(0);
    pthread_mutex_unlock(&account.lock);
    return atomic_load_explicit(&account.file, memory_order_acquire);
}

/* Returns the slot of this process, which gets one with its first request. */
static struct limit_slot *account_slot(struct limit_file *file) {
    struct limit_slot *slot = atomic_load_explicit(&account.slot, memory_order_acquire);
    if (slot || !file)
        return slot;
    pthread_mutex_lock(&account.lock);
    slot = atomic_load_explicit(&account.slot, memory_order_relaxed);
    if (!slot && !(slot = acre__limit_enter(file)) &&
        !atomic_exchange_explicit(&account.is_slot_less, 1, memory_order_relaxed))
        acre__ledger_say("%d processes under this memory limit use CUDA already; process %ld gets "
                         "no device memory",
                         (int)LIMIT_SLOTS, (long)getpid());
    atomic_store_explicit(&account.slot, slot, memory_order_release);
    pthread_mutex_unlock(&account.lock);
    return slot;
}

/* A process that has called exec still has the slot of the program before, whose memory is gone.
 * Nobody else can tell. */
__attribute__((constructor)) static void account_begin(void) {
    if (!acre__limit_is_on())
        return;
    pthread_mutex_lock(&account.lock);
    account_open(1); /* many programs use no CUDA: the message can wait */
    pthread_mutex_unlock(&account.lock);
    struct limit_file *file = atomic_load_explicit(&account.file, memory_order_acquire);
    if (file && !atomic_load_explicit(&account.slot, memory_order_acquire))
        acre__limit_leave(file);
}

/* ---- charges ---- */

int acre__limit_try(uint64_t bytes) {
    struct limit_file *file = acre__limit_file();
    struct limit_slot *slot = bytes ? account_slot(file) : NULL;
    return !bytes || (slot && acre__limit_file_charge(file, slot, bytes));
}

void acre__limit_count_refused(uint64_t bytes) {
    struct limit_file *file = acre__limit_is_on() ? acre__limit_file() : NULL;
    if (!file || bytes <= acre__limit_left(file, account_slot(file)))
        return;
    atomic_fetch_add_explicit(&account.refused, 1, memory_order_relaxed);
    atomic_store_explicit(&account.refused_bytes, bytes, memory_order_relaxed);
}

/* Notes why a request is refused. */
static void account_explain(uint64_t bytes) {
    enum { SIZE = 32 };
    if (!acre__ledger_word("serve")) /* else acre tries again, and perhaps with other sizes */
        acre__limit_count_refused(bytes);
    char wanted[SIZE], left[SIZE], all[SIZE];
    struct limit_file *file = acre__limit_file();
    if (!file || !acre__ledger_word("watch")) /* no report */
        return;
    uint64_t limit = atomic_load_explicit(&file->limit, memory_order_relaxed);
    acre__ledger_why("out of memory: %s requested, %s of the limit of %s left",
                     acre__run_bytes(bytes, wanted, SIZE),
                     acre__run_bytes(acre__limit_left(file, account_slot(file)), left, SIZE),
                     acre__run_bytes(limit, all, SIZE));
}

int acre__limit_squeeze(uint64_t bytes) {
    if (acre__limit_try(bytes))
        return 1;
    acre__limit_settle_pools(0);
    if (acre__limit_try(bytes))
        return 1;
    acre__limit_settle_pools(1);
    return acre__limit_try(bytes);
}

int acre__limit_take(uint64_t bytes) {
    int is_taken = acre__limit_squeeze(bytes);
    if (!is_taken)
        account_explain(bytes);
    return is_taken;
}

void acre__limit_force(uint64_t bytes) {
    struct limit_file *file = acre__limit_file();
    struct limit_slot *slot = bytes ? account_slot(file) : NULL;
    if (slot)
        acre__limit_file_force(file, slot, bytes);
}

void acre__limit_give(uint64_t bytes) {
    struct limit_slot *slot = atomic_load_explicit(&account.slot, memory_order_acquire);
    if (bytes && slot)
        acre__limit_refund(acre__limit_file(), slot, bytes);
}

/* Reads the slot, if there is one: a query takes none. */
void acre__limit_view(uint64_t *free_bytes, uint64_t *total_bytes) {
    struct limit_file *file = acre__limit_file();
    struct limit_slot *slot = atomic_load_explicit(&account.slot, memory_order_acquire);
    uint64_t limit = file ? atomic_load_explicit(&file->limit, memory_order_relaxed) : 0;
    uint64_t left = file ? acre__limit_left(file, slot) : 0;
    if (*total_bytes > limit)
        *total_bytes = limit;
    if (*free_bytes > left)
        *free_bytes = left;
}

int acre__ledger_limit(struct ledger_limit *limit_out) {
    struct limit_file *file = acre__limit_is_on() ? acre__limit_file() : NULL;
    struct limit_slot *slot = atomic_load_explicit(&account.slot, memory_order_acquire);
    if (!file)
        return 0;
    uint64_t used = atomic_load_explicit(&file->used, memory_order_relaxed);
    uint64_t own = slot ? atomic_load_explicit(&slot->used, memory_order_relaxed) : 0;
    *limit_out =
        (struct ledger_limit){.limit = atomic_load_explicit(&file->limit, memory_order_relaxed),
                              .own = own,
                              .others = used < own ? 0 : used - own,
                              .left = acre__limit_left(file, slot),
                              .refused = atomic_load(&account.refused),
                              .refused_bytes = atomic_load(&account.refused_bytes),
                              .is_each = (file->flags & LIMIT_EACH) != 0};
    return 1;
}

/* The mapping of the file is the child's, too. A thread that the child lacks may hold the locks. */
void acre__limit_forget(void) {
    pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    account.lock = fresh;
    acre__limit.lock = acre__limit.tight = fresh;
    acre__limit.blocks = acre__limit.pools = acre__limit.arrays = (struct acre__tree){NULL, 0};
    acre__limit_forget_chunks();
    memset(acre__limit.graph_bytes, 0, sizeof acre__limit.graph_bytes);
    atomic_store_explicit(&account.slot, NULL, memory_order_relaxed);
    atomic_store_explicit(&account.refused, 0, memory_order_relaxed);
}

/* ---- changes ---- */

int acre__limit_wait(uint32_t *seen) {
    struct limit_file *file = acre__limit_file();
    if (!file)
        return 0;
    uint32_t now;
    while ((now = atomic_load_explicit(&file->sequence, memory_order_acquire)) == *seen)
        (void)syscall(SYS_futex, &file->sequence, FUTEX_WAIT, now, NULL, NULL, 0);
    *seen = now;
    return 1;
}

void acre__limit_press(void) {
    struct limit_file *file = acre__limit_file();
    if (!file)
        return;
    atomic_fetch_add_explicit(&file->sequence, 1, memory_order_release);
    (void)syscall(SYS_futex, &file->sequence, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}
