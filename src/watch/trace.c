/* The trace file: start and stop, and the blocks that threads write into.
 *
 * Invariants. The file is mapped once at its maximum length. Only the part that exists is touched,
 * and the file grows by one block before that block is assigned. A block belongs to one writer
 * until the writer takes another one or ends, or the trace stops. acre__trace_generation is the
 * number of the trace, or 0. A writer with another number requests a block first. The thread that
 * stops a trace sets the number to 0, waits until no writer is inside, and only then unmaps the
 * file.
 *
 * Locks: `control` is held by threads that start, stop or flush, and never by writers. `lock`, a
 * leaf, guards the blocks, the names and the list of writers. */
#include "watch/trace.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/config.h"
#include "base/inside.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/options.h"
#include "base/own_file.h"
#include "base/parse.h"
#include "base/stack.h"
#include "base/status.h"
#include "base/symbol.h"
#include "watch/trace_writer.h"
#include "watch/watch_file.h"

enum { TRACE_LEAST_BYTES = 1 << 20 };
#define TRACE_DEFAULT_BYTES (UINT64_C(1) << 30)

_Atomic uint32_t acre__trace_generation;
_Atomic uint32_t acre__watched;
struct acre__clock acre__trace_clock;

/* A module that frames of stacks are in. */
struct trace_module {
    struct trace_module *next;
    uint32_t number;     /* from 1 */
    uint32_t generation; /* the last trace that it was written to */
    char name[];
};

/* The name of a tag, kept for this trace and later ones. */
struct trace_tag {
    struct trace_tag *next;
    uint64_t tag;
    char name[];
};

static struct {
    pthread_once_t once;
    struct acre__lock control, lock;
    /* Changed with both locks held. */
    struct acre__own_file file;
    unsigned char *map; /* the header, followed by the blocks */
    size_t map_bytes;
    int is_ring;
    int has_stacks;
    uint32_t generations; /* number of traces so far */
    int is_begun;         /* ACRE_TRACE was read */
    uint64_t start_ns;
    /* Guarded by `lock`. */
    uint32_t block_count, block_most;
    uint32_t oldest;   /* where the next search for a block to overwrite starts */
    uint64_t sequence; /* blocks assigned so far */
    struct acre__trace_writer *writers;
    struct acre__trace_block *names; /* block for names; NULL before the first name */
    uint32_t name_blocks;            /* blocks that have names */
    struct trace_tag *tags;
    struct trace_module *modules; /* newest first */
    uint32_t *stack_named;        /* by stack: the last trace that it was written to */
    uint32_t stack_most;
} trace = {.once = PTHREAD_ONCE_INIT,
           .control = ACRE__LOCK_INIT("trace control", ACRE__RANK_WATCH),
           .lock = ACRE__LOCK_INIT("trace", ACRE__RANK_LEAF),
           .file = ACRE__OWN_FILE_NONE};

/* Replaces the writer of a thread that is ending: its later events are dropped. */
static struct acre__trace_writer writer_gone;

static struct acre__trace_header *trace_header(void) {
    return (struct acre__trace_header *)(void *)trace.map;
}

/* Memory of the devices that were opened so far, in traces that start later, too. */
static struct {
    _Atomic uint64_t seen; /* bits by number */
    _Atomic uint32_t mib;
} card;

static struct acre__trace_block *block_at(uint32_t index) {
    return (struct acre__trace_block *)(void *)(trace.map + ACRE__TRACE_HEADER_BYTES +
                                                (size_t)index * ACRE__TRACE_BLOCK_BYTES);
}

static uint64_t file_bytes(uint32_t blocks) {
    return ACRE__TRACE_HEADER_BYTES + (uint64_t)blocks * ACRE__TRACE_BLOCK_BYTES;
}

/* ---- initialisation ---- */

/* Stops the recording of events. Returns 1 if the trace was on. */
static int trace_off(void) {
    atomic_fetch_and_explicit(&acre__watched, ~(uint32_t)ACRE__WATCHED_TRACE, memory_order_relaxed);
    return atomic_exchange_explicit(&acre__trace_generation, 0, memory_order_seq_cst) != 0;
}

/* A forked child does not write to the trace: the file belongs to the parent. */
static void trace_in_child(void) {
    (void)trace_off();
    acre__own_file_close(&trace.file);
}

static void writer_end(struct acre__thread *thread);

static void trace_once(void) {
    acre__inside_init();
    acre__thread_at_exit(writer_end);
    (void)pthread_atfork(NULL, NULL, trace_in_child);
}

/* ---- blocks ---- */

/* Lock held: ends the trace; no further events are recorded. */
static void trace_give_up(uint32_t state, int error) {
    if (!trace_off())
        return;
    trace_header()->error = (uint32_t)error;
    __atomic_store_n(&trace_header()->state, state, __ATOMIC_RELEASE);
    if (state == ACRE__TRACE_FULL)
        acre__log(ACRE_LOG_WARN, "trace",
                  "the trace has ended: it reached its limit of %llu bytes (ACRE_TRACE_BYTES)",
                  (unsigned long long)trace.map_bytes);
    else
        acre__log(ACRE_LOG_WARN, "trace", "the trace has ended: its file cannot be grown: %s",
                  strerror(error));
}

/* Lock held: the oldest block that no thread is writing, or NULL. Blocks of names count as being
 * written. */
static struct acre__trace_block *block_overwrite(void) {
    for (uint32_t i = 0; i < trace.block_count; i++) {
        struct acre__trace_block *block = block_at(trace.oldest);
        trace.oldest = (trace.oldest + 1) % trace.block_count;
        if (!block->is_open)
            return block;
    }
    return NULL;
}

/* Lock held: assigns a block to a thread. Ends the trace and returns NULL if there is none. */
static struct acre__trace_block *block_take(uint64_t thread) {
    struct acre__trace_block *block = NULL;
    int error = 0;
    if (trace.block_count < trace.block_most) {
        error = acre__own_file_is_open(&trace.file)
                    ? acre__watch_grow(trace.file.fd, file_bytes(trace.block_count),
                                       file_bytes(trace.block_count + 1))
                    : EBADF;
        if (!error)
            block = block_at(trace.block_count++);
    }
    if (!block && trace.is_ring)
        block = block_overwrite();
    if (!block) {
        trace_give_up(error ? ACRE__TRACE_FAILED : ACRE__TRACE_FULL, error);
        return NULL;
    }
    uint64_t units = acre__clock_units(&acre__trace_clock);
    uint64_t passed_ns = acre__clock_system_ns() - trace.start_ns;
    __atomic_store_n(
        &trace_header()->rate,
        acre__clock_rate(units - trace_header()->start_units, passed_ns, acre__trace_clock.rate),
        __ATOMIC_RELAXED);
    __atomic_store_n(&block->committed, 0, __ATOMIC_RELEASE);
    block->thread = thread;
    block->sequence = ++trace.sequence;
    block->units = units;
    block->os_thread = (uint32_t)syscall(SYS_gettid);
    block->is_open = 1;
    __atomic_store_n(&block->magic, ACRE__TRACE_BLOCK_MAGIC, __ATOMIC_RELEASE);
    return block;
}

/* ---- writers ---- */

struct acre__trace_writer *acre__trace_writer_make(struct acre__thread *thread) {
    thread = thread ? thread : acre__thread_self();
    struct acre__trace_writer *writer = thread->id ? calloc(1, sizeof *writer) : NULL;
    if (!writer)
        return NULL;
    writer->thread = thread->id;
    acre__lock_take(&trace.lock);
    writer->next = trace.writers;
    writer->link = &trace.writers;
    if (trace.writers)
        trace.writers->link = &writer->next;
    trace.writers = writer;
    acre__lock_give(&trace.lock);
    thread->trace = writer;
    return writer;
}

int acre__trace_writer_renew(struct acre__trace_writer *writer, uint32_t generation) {
    if (writer == &writer_gone)
        return 0;
    int is_new = writer->generation != generation;
    acre__lock_take(&trace.lock);
    struct acre__trace_block *block = NULL;
    if (atomic_load_explicit(&acre__trace_generation, memory_order_relaxed) == generation) {
        if (!is_new && writer->block)
            writer->block->is_open = 0;
        block = block_take(writer->thread);
        writer->has_stacks = trace.has_stacks;
    }
    acre__lock_give(&trace.lock);
    writer->block = block;
    writer->at = writer->end = NULL;
    writer->generation = generation;
    if (!block)
        return 0;
    writer->at = (unsigned char *)(block + 1);
    writer->end = (unsigned char *)block + ACRE__TRACE_BLOCK_BYTES - 2 * ACRE__TRACE_RECORD_MOST;
    writer->units = block->units;
    writer->address = 0;
    writer->bytes = 0;
    writer->context = 0;
    writer->context_count = 0;
    if (++writer->epoch == 0) { /* epoch wrapped: places of 65536 blocks ago would look new */
        memset(writer->places, 0, sizeof writer->places);
        writer->epoch = 1;
    }
    if (is_new)
        acre__trace_plain(writer, ACRE__TRACE_THREAD_BEGIN);
    return 1;
}

/* Exit hook: the thread is not inside and does not enter again. */
static void writer_end(struct acre__thread *thread) {
    struct acre__trace_writer *writer = thread->trace;
    thread->trace = &writer_gone;
    if (!writer || writer == &writer_gone)
        return;
    acre__lock_take(&trace.lock);
    if (writer->block && trace.file.fd >= 0 && writer->generation == trace.generations) {
        acre__trace_plain(writer, ACRE__TRACE_THREAD_END);
        writer->block->is_open = 0;
    }
    *writer->link = writer->next;
    if (writer->next)
        writer->next->link = writer->link;
    acre__lock_give(&trace.lock);
    free(writer);
}

/* ---- names ---- */

/* Lock held. Names have their own blocks, which are never overwritten. Returns 0 if there is no
 * block. */
static int name_write(enum acre__trace_kind kind, uint64_t number, const char *name) {
    struct acre__trace_block *block = trace.names;
    if (!block || block->committed + sizeof *block + ACRE__TRACE_RECORD_MOST >
                      (size_t)ACRE__TRACE_BLOCK_BYTES) {
        block = trace.names = block_take(0);
        trace.name_blocks += block != NULL;
    }
    if (!block)
        return 0;
    unsigned char *begin = (unsigned char *)(block + 1);
    unsigned char *at = acre__trace_put_text(begin + block->committed, kind, 0, &number, name);
    __atomic_store_n(&block->committed, (uint32_t)(at - begin), __ATOMIC_RELEASE);
    return 1;
}

void acre__trace_name_pool(struct acre__trace_pool *pool, uint32_t generation) {
    acre__lock_take(&trace.lock);
    if (atomic_load_explicit(&pool->named, memory_order_relaxed) != generation &&
        atomic_load_explicit(&acre__trace_generation, memory_order_relaxed) == generation) {
        (void)name_write(ACRE__TRACE_POOL_NAME, pool->id, pool->name);
        atomic_store_explicit(&pool->named, generation, memory_order_relaxed);
    }
    acre__lock_give(&trace.lock);
}

/* Lock held: returns the number of a module, written to the trace when it is first used; 0 if out
 * of host memory. Of a long path the end is kept. */
static uint32_t module_number(const char *path) {
    size_t bytes = strlen(path);
    const char *kept = bytes > ACRE__TRACE_TEXT_MOST ? path + bytes - ACRE__TRACE_TEXT_MOST : path;
    struct trace_module *module = trace.modules;
    while (module && strcmp(module->name, kept) != 0)
        module = module->next;
    if (!module) {
        module = malloc(sizeof *module + strlen(kept) + 1);
        if (!module)
            return 0;
        *module = (struct trace_module){.next = trace.modules,
                                        .number = trace.modules ? trace.modules->number + 1 : 1};
        memcpy(module->name, kept, strlen(kept) + 1);
        trace.modules = module;
    }
    if (module->generation != trace.generations) {
        (void)name_write(ACRE__TRACE_MODULE_NAME, module->number, module->name);
        module->generation = trace.generations;
    }
    return module->number;
}

/* Lock held: makes room for the mark of a stack. Returns 0 if out of host memory. */
static int stack_reserve(uint32_t stack) {
    if (stack >= trace.stack_most) {
        uint32_t most = stack + 1 > 2 * trace.stack_most ? stack + 1 : 2 * trace.stack_most;
        uint32_t *named = realloc(trace.stack_named, most * sizeof *named);
        if (!named)
            return 0;
        memset(named + trace.stack_most, 0, (most - trace.stack_most) * sizeof *named);
        trace.stack_named = named;
        trace.stack_most = most;
    }
    return 1;
}

/* Lock held: 1 if there is room for another stack. In a ring, stacks leave half of the blocks to
 * events. */
static int stacks_have_room(void) {
    return !trace.is_ring || trace.name_blocks < (trace.block_most + 1) / 2;
}

/* A stack as modules and offsets, which stay valid when the program has ended. The modules are part
 * of the calling stack, so their names stay. */
struct trace_frames {
    unsigned count;
    const char *modules[ACRE__STACK_MOST]; /* NULL: unknown */
    uint64_t offsets[ACRE__STACK_MOST];
};

/* No lock held: the loader's lock is taken, and a constructor that runs under it may allocate. */
static void frames_resolve(uint32_t stack, struct trace_frames *frames) {
    uintptr_t addresses[ACRE__STACK_MOST] = {0};
    frames->count = acre__stack_callers(stack, addresses);
    for (unsigned i = 0; i < frames->count; i++) {
        uintptr_t call = addresses[i] - 1; /* the call is in front of the return address */
        if (!acre__symbol_module(call, &frames->modules[i], &frames->offsets[i])) {
            frames->modules[i] = NULL;
            frames->offsets[i] = call;
        }
    }
}

/* Lock held. */
static void stack_write(uint32_t stack, const struct trace_frames *frames) {
    char text[ACRE__TRACE_TEXT_MOST + 1] = "";
    size_t used = 0;
    for (unsigned i = 0; i < frames->count; i++) {
        uint32_t module = frames->modules[i] ? module_number(frames->modules[i]) : 0;
        char frame[40];
        int bytes = snprintf(frame, sizeof frame, "%s%x:%llx", i ? " " : "", module,
                             (unsigned long long)frames->offsets[i]);
        if (used + (size_t)bytes > ACRE__TRACE_TEXT_MOST)
            break;
        memcpy(text + used, frame, (size_t)bytes + 1);
        used += (size_t)bytes;
    }
    if (name_write(ACRE__TRACE_STACK, stack, text))
        trace.stack_named[stack] = trace.generations;
}

enum stack_state { STACK_REFUSED, STACK_NEW, STACK_NAMED };

/* Lock held. */
static enum stack_state stack_state(uint32_t stack, uint32_t generation) {
    if (atomic_load_explicit(&acre__trace_generation, memory_order_relaxed) != generation ||
        !stack_reserve(stack))
        return STACK_REFUSED;
    if (trace.stack_named[stack] == trace.generations)
        return STACK_NAMED;
    return stacks_have_room() ? STACK_NEW : STACK_REFUSED;
}

int acre__trace_name_stack(uint32_t stack, uint32_t generation) {
    struct trace_frames frames;
    acre__lock_take(&trace.lock);
    enum stack_state state = stack_state(stack, generation);
    acre__lock_give(&trace.lock);
    if (state != STACK_NEW)
        return state == STACK_NAMED;
    frames_resolve(stack, &frames);
    acre__lock_take(&trace.lock);
    state = stack_state(stack, generation);
    if (state == STACK_NEW) {
        stack_write(stack, &frames);
        state = stack_state(stack, generation);
        if (!stacks_have_room())
            acre__log(ACRE_LOG_WARN, "trace",
                      "half of the trace is full of call stacks: new stacks are left out from now "
                      "on (a larger ACRE_TRACE_BYTES has room for more)");
    }
    acre__lock_give(&trace.lock);
    return state == STACK_NAMED;
}

void acre__trace_pool_init(struct acre__trace_pool *pool, const char *format, ...) {
    static _Atomic uint32_t ids;
    pool->id = atomic_fetch_add_explicit(&ids, 1, memory_order_relaxed) + 1;
    atomic_init(&pool->named, 0);
    va_list args;
    va_start(args, format);
    if (vsnprintf(pool->name, sizeof pool->name, format, args) < 0)
        pool->name[0] = '\0';
    va_end(args);
}

void acre__trace_tag(uint32_t tag, const char *name) {
    size_t bytes = strnlen(name, ACRE__TRACE_TEXT_MOST);
    struct trace_tag *node = malloc(sizeof *node + bytes + 1);
    if (!node)
        return;
    node->tag = tag;
    memcpy(node->name, name, bytes);
    node->name[bytes] = '\0';
    acre__lock_take(&trace.lock);
    node->next = trace.tags;
    trace.tags = node;
    if (acre__trace_is_on())
        (void)name_write(ACRE__TRACE_TAG_NAME, tag, node->name);
    acre__lock_give(&trace.lock);
}

/* ---- stop ---- */

static void trace_yield(void) {
    const struct acre__sched_hooks *hooks = acre__sched_hooks_get();
    if (hooks && hooks->is_virtual())
        hooks->yield();
    else
        sched_yield();
}

/* 1 if a writer is inside. *is_seen is 0 if a writer may be inside without showing it
 * (base/inside.h). */
static int writers_are_busy(int is_ordered, int *is_seen) {
    int is_busy = 0;
    *is_seen = 1;
    acre__lock_take(&trace.lock);
    for (struct acre__trace_writer *at = trace.writers; at && !is_busy; at = at->next) {
        *is_seen &= is_ordered || atomic_load_explicit(&at->is_strong, memory_order_seq_cst);
        is_busy = atomic_load_explicit(&at->busy, memory_order_seq_cst) != 0;
    }
    acre__lock_give(&trace.lock);
    return is_busy;
}

/* Waits until no writer is inside and all their stores are visible. Returns 0 if that cannot be
 * known. Runs without the lock, which writers take while inside. */
static int writers_wait(void) {
    int is_ordered = acre__inside_order(), is_seen;
    while (writers_are_busy(is_ordered, &is_seen))
        trace_yield();
    return is_seen && (!is_ordered || acre__inside_order());
}

/* `control` held: stops the trace. Afterwards no thread touches the file, and it is truncated to
 * the blocks in use. */
static void trace_end(void) {
    if (trace.file.fd < 0)
        return;
    int was_on = trace_off();
    int is_alone = writers_wait();
    acre__lock_take(&trace.lock);
    for (uint32_t i = 0; i < trace.block_count; i++)
        block_at(i)->is_open = 0;
    if (was_on)
        trace_header()->state = ACRE__TRACE_STOPPED;
    if (!is_alone)
        acre__log(ACRE_LOG_WARN, "trace",
                  "the trace file stays mapped and is not truncated: membarrier fails");
    else if (munmap(trace.map, trace.map_bytes) ||
             (acre__own_file_is_open(&trace.file) &&
              ftruncate(trace.file.fd, (off_t)file_bytes(trace.block_count))))
        acre__log(ACRE_LOG_WARN, "trace", "the unused end of the trace file was not removed: %s",
                  strerror(errno));
    acre__own_file_close(&trace.file);
    trace.map = NULL;
    trace.names = NULL;
    acre__lock_give(&trace.lock);
}

/* ---- start ---- */

/* Maps the file. Halves the limit while the address space is too small for it. */
static int trace_map(int fd, uint64_t limit_bytes) {
    uint64_t bytes = limit_bytes > SIZE_MAX / 4 ? SIZE_MAX / 4 : limit_bytes;
    bytes = bytes < TRACE_LEAST_BYTES ? TRACE_LEAST_BYTES : bytes;
    for (; bytes >= TRACE_LEAST_BYTES; bytes /= 2) {
        void *map = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (map == MAP_FAILED)
            continue;
        uint64_t blocks = (bytes - ACRE__TRACE_HEADER_BYTES) / ACRE__TRACE_BLOCK_BYTES;
        trace.map = map;
        trace.map_bytes = (size_t)bytes;
        trace.block_most = (uint32_t)(blocks < UINT32_MAX ? blocks : UINT32_MAX - 1);
        return 1;
    }
    return 0;
}

static void trace_write_header(void) {
    struct acre__trace_header *header = trace_header();
    struct timespec real;
    clock_gettime(CLOCK_REALTIME, &real);
    trace.start_ns = acre__clock_system_ns();
    header->start_units = acre__clock_units(&acre__trace_clock);
    header->start_real_ns = (uint64_t)real.tv_sec * 1000000000u + (uint64_t)real.tv_nsec;
    header->version = trace.has_stacks ? ACRE__TRACE_VERSION_STACKS : ACRE__TRACE_VERSION;
    header->header_bytes = ACRE__TRACE_HEADER_BYTES;
    header->block_bytes = ACRE__TRACE_BLOCK_BYTES;
    header->pid = (uint32_t)getpid();
    header->rate = acre__trace_clock.rate;
    header->is_ring = (uint32_t)trace.is_ring;
    header->card_mib = atomic_load_explicit(&card.mib, memory_order_relaxed);
    snprintf(header->clock, sizeof header->clock, "%s", acre__trace_clock.name);
    snprintf(header->library, sizeof header->library, "%s", acre_version());
    memcpy(header->magic, ACRE__TRACE_MAGIC, sizeof header->magic);
}

/* `control` held, no trace open. Takes over the descriptor on success. */
static acre_status trace_open(const char *path, int fd, uint64_t limit_bytes, uint32_t flags) {
    int error = acre__watch_grow(fd, 0, ACRE__TRACE_HEADER_BYTES);
    if (error)
        return acre__fail(ACRE_E_SYSTEM, "%.120s: %s", path, strerror(error));
    acre__clock_open(&acre__trace_clock);
    acre__lock_take(&trace.lock);
    if (!trace_map(fd, limit_bytes)) {
        acre__lock_give(&trace.lock);
        return acre__fail(ACRE_E_SYSTEM, "%.120s cannot be mapped: %s", path, strerror(errno));
    }
    trace.file = acre__own_file(fd);
    trace.is_ring = (flags & ACRE_TRACE_RING) != 0;
    trace.has_stacks = acre__stacks_are_on();
    trace.block_count = 0;
    trace.oldest = 0;
    trace.sequence = 0;
    trace.name_blocks = 0;
    trace_write_header();
    if (++trace.generations == 0)
        trace.generations = 1;
    atomic_store_explicit(&acre__trace_generation, trace.generations, memory_order_seq_cst);
    acre__watch_add(ACRE__WATCHED_TRACE);
    for (const struct trace_tag *tag = trace.tags; tag; tag = tag->next)
        (void)name_write(ACRE__TRACE_TAG_NAME, tag->tag, tag->name);
    acre__lock_give(&trace.lock);
    return ACRE_OK;
}

/* `control` held. *has_file: the file was opened, so a failure is not due to its name. */
static acre_status trace_start(const char *path, uint64_t limit_bytes, uint32_t flags,
                               int *has_file) {
    char file[ACRE__PATH_BYTES];
    int fd;
    *has_file = 0;
    if (acre__parse_path(path, strlen(path), file))
        return acre__fail(ACRE_E_INVALID, "the name of the trace file is too long");
    if (acre__stacks_begin() == ACRE_OK && acre__stacks_are_on())
        acre__watch_add(ACRE__WATCHED_STACKS);
    trace_end(); /* closes a trace that ended at its limit or on an error */
    acre_status status = acre__watch_open(file, ACRE__TRACE_MAGIC, &fd);
    if (status)
        return status;
    *has_file = 1;
    status = trace_open(file, fd, limit_bytes, flags);
    if (status)
        close(fd);
    return status;
}

static acre_status trace_start_checked(const char *path, const acre_trace_options *options) {
    acre_trace_options wishes;
    uint64_t limit;
    int ignored;
    acre_status status = acre__enter();
    if (status)
        return status;
    if (!path || !*path)
        return acre__fail(ACRE_E_NULL, "acre_trace_start: path is NULL or empty");
    if ((status = acre__options_in(&wishes, sizeof wishes, options, "acre_trace_options")))
        return status;
    if (wishes.flags & ~ACRE_TRACE_RING || wishes.reserved)
        return acre__fail(ACRE_E_OPTIONS,
                          "acre_trace_options: unknown flags in 0x%x, or reserved is not 0",
                          wishes.flags);
    if ((status = acre__config_bytes(ACRE__CONFIG_TRACE_BYTES, TRACE_DEFAULT_BYTES, &limit)) ||
        (status = acre__watch_fork()))
        return status;
    limit = wishes.limit_bytes ? wishes.limit_bytes : limit;
    pthread_once(&trace.once, trace_once);
    acre__lock_take(&trace.control);
    status = acre__trace_is_on() ? acre__fail(ACRE_E_BUSY, "a trace is being written already")
                                 : trace_start(path, limit, wishes.flags, &ignored);
    acre__lock_give(&trace.control);
    return status;
}

acre_status acre_trace_start(const char *path, const acre_trace_options *options) {
    return acre__in_call(trace_start_checked(path, options), "acre_trace_start");
}

static acre_status trace_stop(void) {
    acre_status status = acre__enter();
    if (status)
        return status;
    acre__lock_take(&trace.control);
    trace_end();
    acre__lock_give(&trace.control);
    return ACRE_OK;
}

acre_status acre_trace_stop(void) {
    return acre__in_call(trace_stop(), "acre_trace_stop");
}

static acre_status trace_flush(void) {
    acre_status status = acre__enter();
    if (status)
        return status;
    acre__lock_take(&trace.control);
    if (trace.file.fd >= 0) {
        acre__lock_take(&trace.lock);
        size_t bytes = (size_t)file_bytes(trace.block_count);
        acre__lock_give(&trace.lock);
        int is_open = acre__own_file_is_open(&trace.file);
        if (msync(trace.map, bytes, MS_SYNC) || (is_open && fdatasync(trace.file.fd)))
            status = acre__fail(ACRE_E_SYSTEM, "the trace cannot be written to disk: %s",
                                strerror(errno));
    }
    acre__lock_give(&trace.control);
    return status;
}

acre_status acre_trace_flush(void) {
    return acre__in_call(trace_flush(), "acre_trace_flush");
}

/* ---- ACRE_TRACE ---- */

/* `control` held. A file that cannot be opened is a wrong value of the variable and fails. A full
 * disk, or another program that is writing the file, only causes a warning. */
static acre_status trace_begin(const char *path) {
    uint64_t limit;
    int is_ring, has_file;
    acre_status status = acre__config_bytes(ACRE__CONFIG_TRACE_BYTES, TRACE_DEFAULT_BYTES, &limit);
    if (status == ACRE_OK)
        status = acre__config_flag(ACRE__CONFIG_TRACE_RING, 0, &is_ring);
    if (status)
        return status;
    status = trace_start(path, limit, is_ring ? ACRE_TRACE_RING : 0, &has_file);
    if (status == ACRE_OK || status == ACRE_E_BUSY || has_file) {
        if (status)
            acre__log(ACRE_LOG_WARN, "trace", "no trace is written: %s", acre_last_detail());
        trace.is_begun = 1;
        return ACRE_OK;
    }
    return acre__fail(ACRE_E_CONFIG, "ACRE_TRACE: %s", acre_last_detail());
}

void acre__trace_card(unsigned number, uint64_t bytes) {
    uint64_t bit = (uint64_t)1 << number % 64;
    if (atomic_fetch_or_explicit(&card.seen, bit, memory_order_relaxed) & bit)
        return;
    atomic_fetch_add_explicit(&card.mib, (uint32_t)(bytes >> 20), memory_order_relaxed);
    if (!acre__trace_is_on())
        return;
    acre__lock_take(&trace.control);
    if (acre__trace_is_on()) /* it did not end meanwhile */
        trace_header()->card_mib = atomic_load_explicit(&card.mib, memory_order_relaxed);
    acre__lock_give(&trace.control);
}

acre_status acre__trace_begin(void) {
    const char *path = acre__config_string(ACRE__CONFIG_TRACE);
    if (!path)
        return ACRE_OK;
    pthread_once(&trace.once, trace_once);
    acre__lock_take(&trace.control);
    acre_status status = trace.is_begun || trace.file.fd >= 0 ? ACRE_OK : trace_begin(path);
    acre__lock_give(&trace.control);
    return status;
}
