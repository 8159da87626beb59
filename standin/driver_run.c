/* Support of libcuda.so.1 for `acre run`. The variable ACRE_RUN contains the id of the process that
 * `acre run` has become, then the words stats and leaks if requested, separated by commas.
 *
 *   at exit      prints statistics and leaks of every process that has used CUDA
 *   at a fault   prints which memory the host must not access
 *
 * Without ACRE_RUN this file does nothing. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "soft/soft.h"
#include "driver_doors.h"
#include "ledger.h"

static struct {
    pid_t program; /* that `acre run` has become; other processes are its children */
    int want_stats, want_leaks;
} run;

/* ---- at exit ---- */

/* Prints errors that the soft driver has found; with ACRE_SOFT_CHECK also unordered uses of
 * memory. */
static size_t run_say_reports(void) {
    char text[1024];
    size_t count = acre__soft_reports(text, sizeof text);
    if (count)
        fprintf(stderr, "acre: wrong uses of memory: %zu; the first: %s\n", count, text);
    return count;
}

/* Returns 1 if the program could not use CUDA and allocated nothing: "no leaks" would prove
 * nothing. */
static int run_is_void(void) {
    uint64_t made = 0;
    for (int kind = 0; kind < LEDGER_KIND_COUNT; kind++)
        made += acre__ledger_count((enum ledger_kind)kind).made;
    return acre__standin_has_failed() && !made;
}

/* Runs after the exit handlers of the program and of its libraries, which may free memory. */
static void run_at_exit(int code, void *nothing) {
    (void)nothing;
    int is_program = getpid() == run.program, is_asked = run.want_stats || run.want_leaks;
    if (run_is_void()) {
        fprintf(stderr, "acre: %s could not use CUDA\n", program_invocation_short_name);
        if (code == 0)
            exit(2);
        return;
    }
    if (!acre__standin_is_used()) {
        if (is_program && is_asked)
            fprintf(stderr, "acre: %s has not used CUDA\n", program_invocation_short_name);
        return;
    }
    /* Flushes the program's output first, unless another thread holds the lock of stdout. */
    if (ftrylockfile(stdout) == 0) {
        fflush_unlocked(stdout);
        funlockfile(stdout);
    }
    if (!is_program && is_asked)
        fprintf(stderr, "acre: process %ld, %s:\n", (long)getpid(), program_invocation_short_name);
    uint64_t wrong = run_say_reports();
    if (run.want_stats)
        acre__ledger_say_stats(acre__driver_copied_bytes(acre__driver_soft()));
    if (run.want_leaks)
        wrong += acre__ledger_say_leaks();
    if (wrong && code == 0)
        exit(1); /* glibc continues with the remaining exit handlers */
}

/* ---- faults ---- */

enum { RUN_LINE = 1024, RUN_PLACE = 256 };

static const char *run_call(const struct acre_standin_caller *caller) {
    return caller->call ? caller->call : "a call";
}

/* Describes the memory that the host accessed. */
static const char *run_say_what(const struct ledger_entry *entry, char text[RUN_LINE]) {
    char place[RUN_PLACE];
    if (entry->is_lost)
        return "which was freed with its context";
    if (!entry->is_freed)
        return entry->kind == LEDGER_ADDRESSES ? "which is an address with no memory mapped to it"
                                               : "which is device memory";
    snprintf(text, RUN_LINE, "which was freed by %s, called at %s", run_call(&entry->freer),
             acre__ledger_place(entry->freer.address, place, sizeof place));
    return text;
}

/* `is_unmapped` is 1 if nothing is mapped at the address. If something is, it may be the program's
 * own pages, which the system has placed where freed pages were. */
static void run_say_fault(uint64_t address, int is_unmapped) {
    enum { LINE = 2 * RUN_LINE };
    char line[LINE], what[RUN_LINE], place[RUN_PLACE];
    struct ledger_entry entry;
    if (!acre__ledger_find(address, &entry))
        return;
    int is_past = entry.is_freed || entry.is_lost;
    int is_pages = entry.kind == LEDGER_PINNED || entry.kind == LEDGER_MANAGED;
    if (is_past && is_pages && !is_unmapped)
        return;
    int length = snprintf(
        line, LINE,
        "acre: the host touched 0x%" PRIx64 ", %s: byte %" PRIu64 " of %zu from %s, called at %s\n",
        address, run_say_what(&entry, what), address - entry.node.key, entry.bytes,
        run_call(&entry.caller), acre__ledger_place(entry.caller.address, place, sizeof place));
    if (length > 0 && write(STDERR_FILENO, line, (size_t)(length < LINE ? length : LINE - 1)) < 0)
        return;
}

/* Prints the message and restores the default action, which the repeated instruction then
 * triggers. */
static void run_on_fault(int number, siginfo_t *info, void *context) {
    (void)context;
    signal(number, SIG_DFL);
    if (info->si_code > 0)
        run_say_fault((uintptr_t)info->si_addr, info->si_code == SEGV_MAPERR);
    else
        raise(number); /* sent by a process, so no instruction repeats it */
}

/* ---- start ---- */

static int run_has_word(const char *words, const char *word) {
    size_t length = strlen(word);
    for (const char *at = words; (at = strstr(at, word)); at += length) {
        if ((at == words || at[-1] == ',') && (at[length] == ',' || at[length] == '\0'))
            return 1;
    }
    return 0;
}

__attribute__((constructor)) static void run_begin(void) {
    const char *words = acre__config_string(ACRE__CONFIG_RUN);
    if (!words)
        return;
    run.program = (pid_t)strtol(words, NULL, 10);
    run.want_stats = run_has_word(words, "stats");
    run.want_leaks = run_has_word(words, "leaks");
    on_exit(run_at_exit, NULL);
    struct sigaction now, action = {.sa_sigaction = run_on_fault, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGSEGV, NULL, &now) == 0 && now.sa_handler == SIG_DFL)
        sigaction(SIGSEGV, &action, NULL);
}
