#!/usr/bin/env bash
# acre stats: invalid files and process ids, damaged files, and a program that has exited.
# tests/api/test_stats_export.c tests running programs.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 2

run "$no_gpu" "$small" ACRE_STATS=demo.stats "$acre" demo --device soft --output page
expect_rc 0
run "$acre" stats demo.stats
expect_rc 0
expect_plain
expect_out '^process [0-9]+ \(ended\), acre [0-9.]+, last written '
expect_out '^OBJECT +COUNTER +VALUE$'
expect_err 'has ended: these are its last figures'
run_leaks "$acre" stats --json demo.stats
expect_rc 0
expect_json '.schema == "acre-stats/1" and (.is_running | not) and .pid > 0 and .rows == []'
expect_json '.rows_missing == 0 and .refreshed_ns >= .started_ns'

# A running program, read until it exits.
"$acre" bench pool --quick --device soft >/dev/null 2>&1 &
idle=$!
ACRE_STATS='running.%p' "$acre" bench pool --quick --device soft >/dev/null 2>&1 &
pid=$!
for _ in $(seq 200); do
    [ -s "running.$pid" ] && break
    sleep 0.05
done
run "$acre" stats "$idle"
expect_rc 2
expect_err "^acre: process $idle: "
run "$acre" stats --watch 0.05 --json "$pid"
if [ "$rc" -eq 0 ]; then # the program may have exited before
    check "several documents, the last of them of a program that has gone" \
        jq -s -e "length > 0 and all(.pid == $pid) and (.[-1].is_running | not)" "$out"
fi
wait "$pid" "$idle"
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
