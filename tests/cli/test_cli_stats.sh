#!/usr/bin/env bash
# acre stats: invalid files and process ids, damaged files, and a program that has exited.
# tests/api/test_stats_export.c tests running programs.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/publish.sh"
cd "$work" || exit 2

run "$no_gpu" "$small" ACRE_STATS=demo.stats "$acre" demo --device soft --output page
expect_rc 0
run "$acre" stats demo.stats
expect_rc 0
expect_plain
expect_out '^process [0-9]+ \(ended\), acre [0-9.]+, last written '
# The demo closes its devices, and acre_close removes their rows.
expect_out '^no counters: the program had closed its devices when it ended$'
check "no table" test "$(grep -c '^OBJECT' "$out")" -eq 0
expect_err '^acre: process [0-9]+ has ended$'
# A program that ended without acre_close leaves its figures.
run ACRE_STATS=open.stats "$ACRE_BUILD/tests/api/acre_cases" soft open
run "$acre" stats open.stats
expect_rc 0
expect_out '^OBJECT +COUNTER +VALUE$'
expect_out '^soft:0 '
expect_err '^acre: process [0-9]+ has ended: these are its last figures$'
# A running program holds a lock on its file.
run flock demo.stats "$acre" stats demo.stats
expect_rc 0
expect_out '^no counters: the program has no open device$'
expect_no_err
# "-" is standard input: a file or a pipe.
"$acre" stats - <demo.stats >"$out" 2>"$err"
expect_out '^process [0-9]+ \(ended\)'
# shellcheck disable=SC2002 # a pipe
cat demo.stats | "$acre" stats --json - >"$out" 2>"$err"
expect_json '.schema == "acre-stats/1"'
echo 'dear reader' | "$acre" stats - >"$out" 2>"$err"
expect_err '^acre: standard input: this is not a statistics file of acre$'
run_leaks "$acre" stats --json demo.stats
expect_rc 0
expect_json '.schema == "acre-stats/1" and (.is_running | not) and .pid > 0 and .rows == []'
expect_json '.rows_missing == 0 and .refreshed_ns >= .started_ns'

# A running program, read until it exits.
run "$acre" stats $$
expect_rc 2
expect_err "^acre: process $$: "
publish running ACRE_STATS='running.%p' "$ACRE_BUILD/tests/api/top_cases"
out=$work/watched err=$work/watched.err last="acre stats --watch"
feed=${order_fd[running]} # its end ends the program
"$acre" stats --watch 0.05 --json "$pid" >"$out" 2>"$err" {feed}>&- &
watch=$!
wait_for grep -q is_running "$out"
close_program running
wait "$watch"
rc=$?
expect_rc 0
check "several documents, the last of them of a program that has gone" \
    jq -s -e "length > 1 and all(.pid == $pid) and .[0].is_running and (.[-1].is_running | not)" "$out"
run "$acre" stats "running.$pid"
expect_rc 0
expect_out '\(ended\)'

# Files that are not statistics, and damaged ones.
echo 'dear reader' >letter
expect_unreadable stats /nonexistent . letter /dev/null
run "$acre" stats 999999999
expect_rc 2
expect_err 'no such process'
for bytes in 8 100 5000 20000; do
    head -c "$bytes" demo.stats >"cut"
    expect_unreadable stats cut
done
expect_borne stats demo.stats '\377\377\377\377\377\377\377\377' 8 12 16 20 140 168
make_broken demo.stats 8 '\377'
run "$acre" stats broken
expect_rc 2
expect_err 'unsupported format'
# A corrupt row prints no control characters to the terminal.
header=$(od -An -tu4 -j12 -N4 demo.stats | tr -d ' ')
make_broken demo.stats "$header" '\2\0\0\0\1\0\0\0' "$((header + 24))" '\033[31mname'
run "$acre" stats broken
expect_rc 0
expect_plain
expect_out '^\?\[31mname '

# Peaks come first, and counters that are 0 are left out; the JSON has all. The program is a row of
# kind 2, a pool, with some counters set in the file: counter k is 8 bytes at the row's values.
cat >peaks.c <<'C'
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "watch/stats_format.h"
int main(void) {
    static struct acre__stats_header header;
    struct acre__stats_row row = {.kind = 2, .id = 1, .name = "busy pool"};
    struct acre__stats_row idle = {.kind = 2, .id = 2, .name = "idle pool"};
    FILE *file = fopen("demo.stats", "rb+");
    if (!file || fread(&header, sizeof header, 1, file) != 1) {
        return 1;
    }
    for (uint64_t i = 0; i < header.kinds[2].count; i++) {
        const char *name = header.kinds[2].counters[i];
        row.values[i] = !strcmp(name, "live_bytes")        ? 4096
                        : !strcmp(name, "held_peak_bytes") ? 2 << 20
                        : !strcmp(name, "refills")         ? 7
                                                           : 0;
    }
    fseek(file, (long)header.header_bytes, SEEK_SET);
    fwrite(&row, sizeof row, 1, file);
    fwrite(&idle, sizeof idle, 1, file);
    return fclose(file) != 0;
}
C
check "the writer compiles" cc -I"$ACRE_SOURCE/src" -I"$ACRE_SOURCE/include" peaks.c -o peaks
check "and writes" ./peaks
run "$acre" stats demo.stats
expect_rc 0
printf '%s\n' 'busy pool held_peak_bytes 2 MiB' 'live_bytes 4 KiB' 'refills 7' 'idle pool all counters 0' >expected
check "peaks first, no zeros" diff expected <(sed '1,3d; s/^ *//; s/  */ /g' "$out")
run "$acre" stats --json demo.stats
expect_json '.rows[0].values | length > 10 and .refills == 7 and .waits == 0'

# Usage errors.
run "$acre" stats
expect_rc 64
expect_err 'no file or process given'
for seconds in 0 x -1 nan; do
    run "$acre" stats --watch="$seconds" demo.stats
    expect_rc 64
done
run "$acre" stats demo.stats demo.stats
expect_rc 64

finish
