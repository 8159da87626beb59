/* A sandbox makes membarrier fail, while threads use a pool or before they start. No block is
 * allocated twice, and all memory is released. Traces can stop meanwhile.
 *
 * The sandbox is a seccomp filter, which a process cannot remove. So each test runs in a child
 * process. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/membarrier.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "api/api_pool.h"
#include "support/rounds.h"
#include "support/shadow.h"
#include "support/random.h"

enum { THREADS = 4, SLOTS = 256, SKIPPED = 77 };

#if defined(__SANITIZE_THREAD__) || defined(ACRE_SANITIZE_tsan)
enum { IS_CHEAP = 0 }; /* threads use barriers from the start */
#else
enum { IS_CHEAP = 1 };
#endif

/* ---- the sandbox ---- */

/* From now on membarrier fails with EPERM in every thread. Returns 0 if the filter is refused. */
static int sandbox_begin(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_membarrier, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof code / sizeof code[0], code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

static int sandbox_holds(void) {
    return syscall(__NR_membarrier, MEMBARRIER_CMD_QUERY, 0, 0) == -1 && errno == EPERM;
}

/* ---- threads ---- */

/* A block that any thread may free. */
struct handed {
    void *p;
    size_t bytes;
};

static struct {
    acre_pool *pool;
    acre_stream streams[2];
    _Atomic(struct handed *) slots[SLOTS];
    _Atomic uint64_t operations;
    _Atomic int is_over;
} world;

static void *hand_free(struct handed *handed, acre_stream stream) {
    void *p = handed->p;
    shadow_end(p, handed->bytes);
    free(handed);
    thread_must(acre_pool_free(world.pool, p, stream) == ACRE_OK);
    return p;
}

/* Allocates a block and frees one that it or another thread has allocated. */
static void *worker_run(void *user) {
    uint64_t random = (uintptr_t)user;
    while (!atomic_load(&world.is_over) && !atomic_load(&thread_failed_line)) {
        acre_stream stream = world.streams[random_next(&random) % 2];
        struct handed *handed = malloc(sizeof *handed);
        thread_must(handed);
        handed->bytes = 1 + random_next(&random) % (8 * KIB);
        thread_must(acre_pool_alloc(world.pool, handed->bytes, 0, stream, &handed->p) == ACRE_OK);
        thread_must(shadow_begin(handed->p, handed->bytes));
        handed = atomic_exchange(&world.slots[random_next(&random) % SLOTS], handed);
        if (handed && !hand_free(handed, stream))
            return NULL;
        atomic_fetch_add_explicit(&world.operations, 1, memory_order_relaxed);
    }
    return NULL;
}

/* Empties the other threads' caches repeatedly. */
static void *drainer_run(void *user) {
    acre_pool_stats stats = {.struct_size = sizeof stats};
    (void)user;
    while (!atomic_load(&world.is_over) && !atomic_load(&thread_failed_line)) {
        thread_must(acre_pool_trim(world.pool, 0) == ACRE_OK);
        thread_must(acre_pool_get_stats(world.pool, &stats) == ACRE_OK);
    }
    return NULL;
}

static int wait_for(uint64_t operations) {
    uint64_t end = atomic_load(&world.operations) + operations;
    while (atomic_load(&world.operations) < end && !atomic_load(&thread_failed_line))
        usleep(1000);
    return !atomic_load(&thread_failed_line);
}

/* ---- the child ---- */

static void count_mapped(void *user, acre_log_level level, const char *area, const char *line) {
    (void)level;
    if (strcmp(area, "trace") == 0 && strstr(line, "stays mapped"))
        ++*(int *)user;
}

static void trace_begin(char path[32]) {
    snprintf(path, 32, "/tmp/acre-sandbox-XXXXXX");
    int fd = mkstemp(path);
    api_must(fd >= 0);
    close(fd);
    api_must(acre_trace_start(path, NULL) == ACRE_OK);
}

/* The threads continue to write to the first trace without barriers. acre cannot wait for them, so
 * the file stays mapped. They write to the second trace with barriers. */
static void child_traces(void) {
    char path[32];
    int mapped = 0;
    api_must(acre_log_set(count_mapped, &mapped, ACRE_LOG_WARN) == ACRE_OK);
    api_must(acre_trace_stop() == ACRE_OK);
    api_must(mapped <= IS_CHEAP); /* 0: all threads have noticed in the meantime */
    trace_begin(path);
    uint64_t now = atomic_load(&world.operations);
    api_must(wait_for(now + 20000));
    api_must(acre_trace_stop() == ACRE_OK);
    api_must(acre_log_set(NULL, NULL, ACRE_LOG_ERROR) == ACRE_OK);
    unlink(path);
}

static void child_threads(int is_late) {
    char path[32];
    trace_begin(path);
    pthread_t threads[THREADS + 1];
    for (uintptr_t i = 0; i <= THREADS; i++)
        api_must(pthread_create(&threads[i], NULL, i < THREADS ? worker_run : drainer_run,
                                (void *)i) == 0);
    api_must(wait_for(ROUNDS(20000, 5000)));
    if (is_late)
        api_must(sandbox_begin());
    api_must(sandbox_holds());
    if (is_late)
        child_traces();
    else
        api_must(acre_trace_stop() == ACRE_OK);
    (void)wait_for(ROUNDS(500000, 50000));
    atomic_store(&world.is_over, 1);
    for (int i = 0; i <= THREADS; i++)
        pthread_join(threads[i], NULL);
    unlink(path);
    if (atomic_load(&thread_failed_line)) {
        fprintf(stderr, "line %d: a thread failed\n", atomic_load(&thread_failed_line));
        exit(1);
    }
}

static void child_run(int is_late) {
    if (!is_late && !sandbox_begin())
        exit(SKIPPED);
    struct things t = begin("soft", NULL);
    void *p;
    world.pool = t.pool;
    world.streams[0] = t.stream;
    world.streams[1] = t.other;
    for (int i = 0; i < 100; i++) { /* the main thread has a cache, too */
        api_must(acre_pool_alloc(t.pool, 1000, 0, t.stream, &p) == ACRE_OK);
        api_must(acre_pool_free(t.pool, p, t.stream) == ACRE_OK);
    }
    child_threads(is_late);
    for (int i = 0; i < SLOTS; i++) {
        struct handed *handed = atomic_load(&world.slots[i]);
        api_must(!handed || hand_free(handed, t.stream));
    }
    api_must(shadow_count() == 0);
    api_must(acre_device_sync(t.device) == ACRE_OK);
    for (int i = 0; i < 2; i++) /* the first makes this thread strong (base/inside.h) */
        api_must(acre_pool_trim(t.pool, 0) == ACRE_OK);
    acre_pool_stats stats = stats_of(t.pool);
    api_must(stats.live_blocks == 0);
    api_must(stats.used_bytes == 0);
    api_must(stats.held_bytes == 0);
    end(&t);
    exit(0);
}

/* ---- tests ---- */

static int seccomp_is_there(void) {
    uint32_t action = SECCOMP_RET_ERRNO;
    return syscall(__NR_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

static void run_in_child(char *mode) {
    if (!seccomp_is_there()) {
        print_message("skipped: the kernel has no seccomp\n");
        skip();
    }
    int state = api_start(mode, (char *)NULL);
    assert_true(WIFEXITED(state));
    if (WEXITSTATUS(state) == SKIPPED) {
        print_message("skipped: the kernel refuses the seccomp filter\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(state), 0);
}

TEST(pool_whose_membarrier_fails_later_hands_no_block_out_twice) {
    for (int i = 0; i < ROUNDS(10, 2); i++) /* each run fails membarrier at another moment */
        run_in_child("late");
}

TEST(pool_without_membarrier_hands_no_block_out_twice) {
    run_in_child("early");
}

int main(int argc, char **argv) {
    if (argc > 1)
        child_run(strcmp(argv[1], "late") == 0);
    return tests_run("pool_sandbox");
}
