/* Host threads use one heap of a soft device, each as a warp of one lane, against glibc's malloc.
 * The floor computes its addresses. Each thread has 64 live blocks, replaces the oldest one, and
 * writes a word to each.
 *
 * The process can access a soft device's memory only while a kernel runs there. So the case runs a
 * kernel that sleeps until the threads are done. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "heap_bench.h"

enum {
    TEAM_THREADS = 16, /* at most */
    TEAM_LIVE = 64,
    TEAM_DRAWS = 1024, /* sizes, used cyclically */
    TEAM_STEP = 512,   /* pairs between two clock reads */
    TEAM_GATE_S = 5
};

/* At most 4 MiB are live, and every thread may own pages of each size. */
#define TEAM_HEAP_BYTES (64 * HEAP_MIB)

enum team_party { TEAM_ACRE, TEAM_MALLOC, TEAM_FLOOR, TEAM_PARTIES };

static const char *const team_who[TEAM_PARTIES] = {"acre", "malloc", "floor"};

struct team {
    struct heap_bench *b;
    acre_heap_handle handle;
    uint32_t bytes; /* 0: mixed */
    uint32_t draws[TEAM_DRAWS];
    unsigned count; /* threads */
    uint64_t last_ns;
    pthread_barrier_t start;
};

struct member {
    struct team *team;
    enum team_party party;
    void *live[TEAM_LIVE];
    char *own; /* memory of the floor */
    uint64_t pairs, begin_ns, end_ns;
    int ok;
};

/* ---- access to the device's memory ---- */

struct gate {
    _Atomic int is_open, is_over;
};

static void gate_pause(void) {
    struct timespec pause = {0, 200000};
    nanosleep(&pause, NULL);
}

static void gate_kernel(void *arg) {
    struct gate *gate = arg;
    atomic_store(&gate->is_open, 1);
    while (!atomic_load(&gate->is_over)) {
        gate_pause();
    }
}

/* Starts the kernel. Returns 0 on failure. gate->is_open stays 0 if the device runs kernels only
 * while the host waits, as with ACRE_SOFT_SEED. */
static int gate_begin(struct heap_bench *b, struct gate *gate) {
    uint64_t begin = cli_now_ns();
    const uint32_t one[3] = {1, 1, 1};
    if (acre_soft_launch(b->device, b->stream, gate_kernel, one, one, 0, gate)) {
        return 0;
    }
    while (!atomic_load(&gate->is_open) &&
           cli_now_ns() - begin < UINT64_C(1000000000) * TEAM_GATE_S) {
        gate_pause();
    }
    return 1;
}

static int gate_end(struct heap_bench *b, struct gate *gate) {
    atomic_store(&gate->is_over, 1);
    return acre_stream_sync(b->device, b->stream) == ACRE_OK;
}

/* ---- one thread ---- */

#define TEAM_INLINE static inline __attribute__((always_inline))

TEAM_INLINE void *team_take(struct member *m, enum team_party party, uint32_t bytes,
                            unsigned place) {
    void *p = NULL;
    switch (party) {
    case TEAM_ACRE:
        return acre_heap_malloc(m->team->handle, bytes);
    case TEAM_MALLOC:
        p = malloc(bytes);
        break;
    default:
        p = m->own + (size_t)place * HEAP_MIXED_MOST;
    }
    __asm__ volatile("" : "+r"(p) : : "memory"); /* keeps malloc from being removed */
    return p;
}

TEAM_INLINE void team_give(struct member *m, enum team_party party, void *p) {
    if (party == TEAM_ACRE) {
        acre_heap_free(m->team->handle, p);
    } else if (party == TEAM_MALLOC) {
        free(p);
    }
}

TEAM_INLINE int team_step(struct member *m, enum team_party party) {
    for (unsigned i = 0; i < TEAM_STEP; i++) {
        unsigned place = i % TEAM_LIVE;
        uint32_t *p = team_take(m, party, m->team->draws[(m->pairs + i) % TEAM_DRAWS], place);
        if (!p) {
            return 0;
        }
        *p = i;
        team_give(m, party, m->live[place]);
        m->live[place] = p;
    }
    m->pairs += TEAM_STEP;
    return 1;
}

static int team_steps(struct member *m) {
    switch (m->party) {
    case TEAM_ACRE:
        return team_step(m, TEAM_ACRE);
    case TEAM_MALLOC:
        return team_step(m, TEAM_MALLOC);
    default:
        return team_step(m, TEAM_FLOOR);
    }
}

static void *team_member(void *user) {
    struct member *m = user;
    m->ok = team_steps(m); /* warms up */
    pthread_barrier_wait(&m->team->start);
    m->pairs = 0;
    m->begin_ns = cli_now_ns();
    while (m->ok && cli_now_ns() - m->begin_ns < m->team->last_ns) {
        m->ok = team_steps(m);
    }
    m->end_ns = cli_now_ns();
    for (unsigned i = 0; i < TEAM_LIVE; i++) {
        if (m->party == TEAM_ACRE) {
            acre_heap_free(m->team->handle, m->live[i]);
        } else if (m->party == TEAM_MALLOC) {
            free(m->live[i]);
        }
    }
    return NULL;
}

/* ---- all of them ---- */

/* Measures the nanoseconds per pair, over all threads together. */
static int team_turn(void *user, unsigned party, double *ns) {
    struct team *team = user;
    struct member *members = cli_alloc(team->count * sizeof *members);
    pthread_t ids[TEAM_THREADS];
    uint64_t begin = UINT64_MAX, end = 0, pairs = 0;
    int ok = 1;
    memset(members, 0, team->count * sizeof *members);
    pthread_barrier_init(&team->start, NULL, team->count);
    for (unsigned i = 0; i < team->count; i++) {
        members[i].team = team;
        members[i].party = (enum team_party)party;
        members[i].own = party == TEAM_FLOOR ? cli_alloc(TEAM_LIVE * HEAP_MIXED_MOST) : NULL;
        if (pthread_create(&ids[i], NULL, team_member, &members[i]) != 0) {
            cli_say("suite heap: cannot create more threads");
            exit(CLI_CANNOT); /* threads already created wait for the others */
        }
    }
    for (unsigned i = 0; i < team->count; i++) {
        pthread_join(ids[i], NULL);
        ok = ok && members[i].ok;
        pairs += members[i].pairs;
        begin = members[i].begin_ns < begin ? members[i].begin_ns : begin;
        end = members[i].end_ns > end ? members[i].end_ns : end;
        free(members[i].own);
    }
    pthread_barrier_destroy(&team->start);
    free(members);
    *ns = ok ? (double)(end - begin) / (double)pairs : 0;
    if (!ok) {
        bench_reason(team->b->bench, "threads: a request got NULL");
    }
    return ok;
}

static void team_draw(struct team *team, uint32_t bytes) {
    struct heap_job job = {.bytes = bytes};
    team->bytes = bytes;
    for (unsigned i = 0; i < TEAM_DRAWS; i++) {
        team->draws[i] = heap_bytes_of(&job, i);
    }
}

static int team_measure(struct team *team) {
    static const uint32_t sizes[] = {64, 0};
    struct bench *bench = team->b->bench;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    char name[BENCH_NAME_BYTES], what[32];
    for (unsigned s = 0; s < 2; s++) {
        team_draw(team, sizes[s]);
        for (team->count = 1; team->count <= TEAM_THREADS && (long)team->count <= cores;
             team->count *= 2) {
            double ns[BENCH_PARTIES][BENCH_FIGURES];
            if (!bench_rounds(bench, team_turn, team, TEAM_PARTIES, 1, ns)) {
                bench_blame(bench, false);
                return 0;
            }
            snprintf(what, sizeof what, "threads %u", team->count);
            for (unsigned i = 0; i < TEAM_PARTIES; i++) {
                bench_result(bench, heap_case_name(what, sizes[s], 0, name), team_who[i],
                             1e3 / ns[i][0], "M pairs/s");
            }
        }
    }
    return 1;
}

int heap_thread_cases(struct heap_bench *b) {
    struct gate gate = {0};
    struct team team = {.b = b, .last_ns = b->is_quick ? 1000000 : 20000000};
    b->doing = "threads";
    if (!b->is_soft) {
        cli_say("suite heap: threads skipped: host threads can only use the heap of a soft device");
        return 1;
    }
    if (!heap_has_room(b, "threads", TEAM_HEAP_BYTES, 0)) {
        return 1;
    }
    acre_heap *heap = heap_make(b, TEAM_HEAP_BYTES, &team.handle);
    if (!heap || !gate_begin(b, &gate)) {
        return 0;
    }
    int ok = 1;
    if (atomic_load(&gate.is_open)) {
        ok = team_measure(&team);
    } else {
        cli_say("suite heap: threads skipped: the device runs kernels only while the host waits");
    }
    return gate_end(b, &gate) && ok && heap_unmake(b, heap);
}
