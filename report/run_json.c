/* The report of `acre run` as JSON, in one line per process; see run_report.h.
 *
 * The stand-in has no dependencies, so this file formats JSON by itself. Texts of a collection are
 * printable ASCII: only the quote and the backslash need an escape. */
#include <inttypes.h>

#include "run_report.h"

static const char *const json_kinds[RUN_KIND_COUNT] = {
#define RUN_TITLE(kind, title, is_memory) title,
    RUN_KINDS(RUN_TITLE)
#undef RUN_TITLE
};

static void put_text(FILE *out, const char *key, const char *text) {
    fprintf(out, "\"%s\": \"", key);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', out);
        fputc(*text >= ' ' && *text <= '~' ? *text : '?', out);
    }
    fputc('"', out);
}

static void put_number(FILE *out, const char *key, uint64_t value) {
    fprintf(out, ", \"%s\": %" PRIu64, key, value);
}

static void put_flag(FILE *out, const char *key, int value) {
    fprintf(out, ", \"%s\": %s", key, value ? "true" : "false");
}

static void put_site(FILE *out, const struct run_site *site) {
    put_text(out, "call", site->call);
    fputs(", ", out);
    put_text(out, "called_at", site->place);
    if (site->from[0]) {
        fputs(", ", out);
        put_text(out, "called_from", site->from);
    }
}

static void put_stats(FILE *out, const struct run_collection *run, unsigned wants) {
    const char *comma = "";
    fputs(", \"memory\": [", out);
    for (unsigned i = 0; i < RUN_KIND_COUNT; i++) {
        const struct run_count *count = &run->counts[i];
        if (!count->made && !count->refused)
            continue;
        fprintf(out, "%s{", comma);
        comma = ", ";
        put_text(out, "kind", json_kinds[i]);
        put_number(out, "made", count->made);
        put_number(out, "freed", count->freed);
        put_number(out, "refused", count->refused);
        put_number(out, "peak_bytes", count->most_bytes);
        put_number(out, "left_bytes", count->bytes);
        put_number(out, "total_bytes", count->all_bytes);
        fputc('}', out);
    }
    fputc(']', out);
    if (!(wants & RUN_WANT_WATCH)) /* the shim does not see copies */
        put_number(out, "copied_bytes", run->copied_bytes);
}

static void put_leaks(FILE *out, const struct run_collection *run) {
    put_number(out, "leak_count", run->leak_count);
    fputs(", \"leaks\": [", out);
    for (size_t i = 0; i < run->leak_rows; i++) {
        const struct run_leak *leak = &run->leaks[i];
        fputs(i ? ", {" : "{", out);
        put_text(out, "kind", json_kinds[leak->kind]);
        fputs(", ", out);
        put_site(out, &leak->site);
        fprintf(out, ", \"first\": \"0x%" PRIx64 "\"", leak->first);
        put_number(out, "count", leak->count);
        put_number(out, "bytes", leak->bytes);
        put_flag(out, "context_ended", leak->is_lost);
        put_flag(out, "suppressed", leak->is_suppressed);
        fputc('}', out);
    }
    fputc(']', out);
}

static void put_calls(FILE *out, const struct run_collection *run) {
    put_number(out, "error_count", run->call_count + run->unsupported_count);
    fputs(", \"errors\": [", out);
    for (size_t i = 0; i < run->call_rows; i++) {
        const struct run_call *call = &run->calls[i];
        fputs(i ? ", {" : "{", out);
        put_site(out, &call->site);
        fputs(", ", out);
        put_text(out, "error", call->error);
        put_number(out, "code", call->code);
        put_number(out, "count", call->count);
        fputs(", ", out);
        put_text(out, "why", call->why);
        put_flag(out, "unsupported", call->is_unsupported);
        put_flag(out, "suppressed", call->is_suppressed);
        fputc('}', out);
    }
    fputc(']', out);
}

static void put_wrongs(FILE *out, const struct run_collection *run) {
    put_number(out, "race_count", run->wrong_count);
    fputs(", \"races\": [", out);
    for (size_t i = 0; i < run->wrong_rows; i++) {
        fputs(i ? ", {" : "{", out);
        put_text(out, "text", run->wrongs[i].text);
        put_flag(out, "suppressed", run->wrongs[i].is_suppressed);
        fputc('}', out);
    }
    fputc(']', out);
}

static void put_counted(FILE *out, const struct run_collection *run) {
    fputs(", \"unrecorded_calls\": [", out);
    for (size_t i = 0; i < run->counted_rows; i++) {
        fputs(i ? ", {" : "{", out);
        put_text(out, "call", run->counted[i].call);
        put_number(out, "count", run->counted[i].count);
        fputc('}', out);
    }
    fputc(']', out);
}

void acre__run_print_json(FILE *out, const struct run_collection *run, unsigned wants,
                          const char *end) {
    fputc('{', out);
    put_text(out, "schema", "acre-run/1");
    fputs(", ", out);
    put_text(out, "program", run->program);
    fprintf(out, ", \"process\": %" PRId64 ", ", run->pid);
    put_text(out, "end", end);
    put_flag(out, "used_cuda", (run->state & RUN_PROCESS_USED) != 0);
    put_flag(out, "complete", !run->is_incomplete);
    put_number(out, "findings", acre__run_found(run, wants));
    put_wrongs(out, run);
    if (wants & RUN_WANT_STATS)
        put_stats(out, run, wants);
    put_calls(out, run);
    if (wants & RUN_WANT_LEAKS)
        put_leaks(out, run);
    if (wants & RUN_WANT_WATCH)
        put_counted(out, run);
    fputs("}\n", out);
}
