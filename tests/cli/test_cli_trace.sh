#!/usr/bin/env bash
# acre trace: the summary, the list, compression, damaged files; ACRE_TRACE as a user sets it.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 2

run "$no_gpu" "${smaller[@]}" ACRE_TRACE=demo.trace "$acre" demo --device soft --output page
expect_rc 0
check "a trace was written" test -s demo.trace

run "$acre" trace demo.trace
expect_rc 0
expect_no_err
expect_plain
expect_out '^process +[0-9]+, started 20[0-9][0-9]-'
expect_out '^recorded .* the program ended without stopping the trace$'
expect_out '^events +[0-9]+, [0-9.]+ bytes each'
expect_out '^pool +[0-9]+ soft:0 device'
expect_out '^live +peak '
expect_out '^alloc +[0-9]+$'
expect_out '^chunk-create +[0-9]+$'

run_leaks "$acre" trace --json demo.trace
expect_rc 0
expect_json '.schema == "acre-trace/1" and .state == "running" and (.is_written | not)'
# The demo makes some double frees, to show that they are refused.
expect_json '.kinds.alloc > 0 and .kinds.alloc == .kinds.free - .kinds["free-refused"] + .live_blocks'
expect_json '.events == ([.kinds[]] | add) and .threads >= 1 and .streams >= 1'
expect_json '.peak_bytes > 0 and .peak_real_bytes >= .peak_bytes and .live_bytes == 0'
expect_json '.unknown_frees == 0 and .missing_frees == 0 and .refused[0].status == "ACRE_E_POINTER"'
expect_json '.bytes_an_event > 0 and .created_bytes >= .peak_real_bytes'
events=$(jq .events "$out")

run "$acre" trace --list demo.trace
expect_rc 0
check "one line an event" test "$(wc -l <"$out")" -eq "$events"
expect_out '^[0-9]+\.[0-9]{9} 0 thread-begin$'
expect_out ' alloc block=1 at=0x[0-9a-f]+ bytes=[0-9]+ real=[0-9]+ pool=1 stream=0x[0-9a-f]+$'
cp "$out" list

# A packed trace is smaller and has the same contents. How much smaller depends on its times: slow
# machines have more distinct ones.
run "$acre" trace --pack demo.gz demo.trace
expect_rc 0
expect_no_out
expect_err 'demo.gz: packed .* into '
check "it is gzip" gzip -t demo.gz
check "it is smaller" test "$(stat -c %s demo.gz)" -lt "$(($(stat -c %s demo.trace) / 2))"
check "it is the file" cmp <(gzip -dc demo.gz) demo.trace
run "$acre" trace --list demo.gz
expect_rc 0
check "the same list" cmp "$out" list
run "$acre" trace --pack demo.trace demo.trace
expect_rc 2
expect_err 'it is the trace itself'
check "and is left alone" "$acre" trace demo.trace
run "$acre" trace --pack none/demo.gz demo.trace
expect_rc 2
expect_err 'cannot write none/demo.gz'

# A size limit, and a ring buffer.
run "$no_gpu" ACRE_TRACE=small.trace ACRE_TRACE_BYTES=1MiB "$acre" bench pool --quick --device soft
expect_rc 0
expect_err 'warning.*trace has ended: it reached its limit of 1048576 bytes'
check "it is no larger" test "$(stat -c %s small.trace)" -le 1048576
run "$acre" trace --json small.trace
expect_rc 0
expect_json '.state == "full"'
run "$acre" trace small.trace
expect_out 'ended early: the trace reached its size limit'
run "$no_gpu" ACRE_TRACE=ring.trace ACRE_TRACE_BYTES=2MiB ACRE_TRACE_RING=yes \
    "$acre" bench pool --quick --device soft --case pair --case random
expect_rc 0
run "$acre" trace --json ring.trace
expect_rc 0
expect_json '.is_ring and .state == "running"'

# A full disk: the program continues. (Sanitizers and coverage need larger files.)
if ! is_sanitized && ! grep -q '^ACRE_COVERAGE:BOOL=ON' "$ACRE_BUILD/CMakeCache.txt"; then
    # shellcheck disable=SC2016 # for the inner shell
    run "$no_gpu" ACRE_TRACE=full.trace bash -c 'ulimit -f 2; exec "$0" "$@"' "$acre" info --device cuda
    expect_rc 2
    expect_err 'warning.*no trace is written: full.trace: File too large'
fi

# %p, and invalid paths.
run "$no_gpu" ACRE_TRACE='p%p.trace' "$acre" info --device soft
expect_rc 0
check "a file with the number" compgen -G 'p[0-9]*.trace'
echo 'dear reader' >letter
run "$no_gpu" ACRE_TRACE=letter "$acre" info --device soft
expect_rc 2
expect_err 'ACRE_TRACE: letter is a file of another kind'
check "the letter is as it was" grep -q 'dear reader' letter
run "$no_gpu" ACRE_TRACE=/nonexistent/t "$acre" info --device soft
expect_rc 2
expect_err 'ACRE_TRACE: /nonexistent/t: No such file'

# Files that are not traces, and damaged ones.
expect_unreadable trace /nonexistent . letter /dev/null
: >empty
run "$acre" trace empty
expect_rc 2
expect_err 'empty: byte 0: this is not an acre trace'
size=$(stat -c %s demo.trace)
for bytes in 8 100 4095 5000 "$((size - 60000))"; do
    head -c "$bytes" demo.trace >"cut"
    run "$acre" trace cut
    expect_no_crash
    check "cut at $bytes" test "$rc" -eq 2 -o "$bytes" -gt 4096
done
expect_borne trace demo.trace '\377\377\377\377' 8 16 4100 4104 8192 70000
make_broken demo.trace 4096 '\377\377\377\377'
run "$acre" trace broken
expect_rc 2
expect_err '^acre: broken: byte 4096: there is no block where one should begin$'
head -c 3000 demo.gz >cut.gz
run "$acre" trace cut.gz
expect_rc 2

# Usage errors.
run "$acre" trace
expect_rc 64
expect_err 'no file given'
run "$acre" trace --json --list demo.trace
expect_rc 64
run "$acre" trace demo.trace ring.trace
expect_rc 64

finish
