/* The cost of a trace: pairs of 64 KiB without a trace, and while one is written.
 *
 * Both are measured in the same rounds. The file is in its own temporary folder. Every start
 * truncates the file, and the case removes it at the end. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "pool_parties.h"

struct pool_trace {
    const struct pool_bench *p;
    uint64_t count;
    char folder[256], path[300];
    double bytes; /* of the file per event, in the last turn */
};

static int trace_pairs(const struct pool_trace *trace, double *ns) {
    uint64_t begin = cli_now_ns();
    int ok = pool_pairs(trace->p, POOL_BLOCK_BYTES, trace->p->streams[0], trace->count, POOL_ACRE);
    *ns = (double)(cli_now_ns() - begin) / (double)trace->count;
    return ok;
}

/* Party 0 has a trace, party 1 none. */
static int trace_turn(void *user, unsigned party, double *ns) {
    struct pool_trace *trace = user;
    struct stat now;
    if (party == 1) {
        return trace_pairs(trace, ns);
    }
    if (acre_trace_start(trace->path, NULL)) {
        return 0;
    }
    int ok = trace_pairs(trace, ns);
    if (!ok) { /* before another call replaces the detail */
        return 0;
    }
    ok = acre_trace_stop() == ACRE_OK && stat(trace->path, &now) == 0;
    trace->bytes = ok ? (double)now.st_size / (double)(2 * trace->count) : 0;
    return ok;
}

/* Tries to start and stop a trace. Returns 0 on failure. *is_busy: ACRE_TRACE has already started
 * one. */
static int trace_try(const struct pool_trace *trace, bool *is_busy) {
    acre_status status = acre_trace_start(trace->path, NULL);
    *is_busy = status == ACRE_E_BUSY;
    return *is_busy || (status == ACRE_OK && acre_trace_stop() == ACRE_OK);
}

int pool_trace_cases(struct pool_bench *p) {
    struct pool_trace trace = {.p = p, .count = pool_count(p, 200000)};
    double ns[BENCH_PARTIES][BENCH_FIGURES];
    const char *where = getenv("TMPDIR");
    snprintf(trace.folder, sizeof trace.folder, "%.200s/acre-bench-XXXXXX",
             where && *where ? where : "/tmp");
    if (!mkdtemp(trace.folder)) {
        cli_say("suite pool: trace skipped: cannot create a temporary folder");
        return 1;
    }
    snprintf(trace.path, sizeof trace.path, "%s/trace", trace.folder);
    bool is_busy = false;
    int ok = trace_try(&trace, &is_busy);
    ok = ok && !is_busy && bench_rounds(p->bench, trace_turn, &trace, 2, 1, ns);
    unlink(trace.path);
    rmdir(trace.folder);
    if (is_busy) {
        cli_say("suite pool: trace skipped: ACRE_TRACE has already started a trace");
        return 1;
    }
    if (!ok) {
        bench_blame(p->bench, false);
        return 0;
    }
    bench_result(p->bench, "trace on", "acre", ns[0][0], "ns/pair");
    bench_result(p->bench, "trace off", "acre", ns[1][0], "ns/pair");
    bench_result(p->bench, "trace: cost of a pair", "acre", ns[0][0] - ns[1][0], "ns");
    bench_result(p->bench, "trace: size of an event", "acre", trace.bytes, "bytes");
    return 1;
}
