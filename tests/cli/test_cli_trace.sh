#!/usr/bin/env bash
# acre trace: the summary, the list, compression, damaged files; ACRE_TRACE as a user sets it.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 2

run "$no_gpu" "$smaller" ACRE_TRACE=demo.trace "$acre" demo --device soft --output page
expect_rc 0
check "a trace was written" test -s demo.trace

run "$acre" trace demo.trace
expect_rc 0
expect_no_err
expect_plain
expect_out '^process +[0-9]+, started 20[0-9][0-9]-'
expect_out '^recorded .* until the program ended$'
expect_out '^events +[0-9]+, [0-9.]+ bytes each'
expect_out '^pool +[0-9]+ soft:0 device'
expect_out '^live +peak '
expect_out '^alloc +[0-9]+$'
expect_out '^chunk-create +[0-9]+$'
expect_out '^live .* allocated\) after [0-9.]+ (ns|us|ms|s); at the end 0 B in 0 blocks$'

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
expect_err '^acre: cannot write demo.trace: it is the input demo.trace; choose another file, or replace it with --force$'
check "and is left alone" "$acre" trace demo.trace
ln demo.trace hard.trace
ln -s demo.trace soft.trace
for name in hard.trace soft.trace; do
    run "$acre" trace --pack "$name" demo.trace
    expect_rc 2
    expect_err "^acre: cannot write $name: it is the input demo.trace; "
done
# Another trace is a recording, which packing must not destroy.
cp demo.trace other.trace
run "$acre" trace --pack other.trace demo.trace
expect_rc 2
expect_err '^acre: cannot write other.trace: acre did not write the existing file; '
check "the other is left alone" cmp other.trace demo.trace
run "$acre" trace --pack other.trace --force demo.trace
expect_rc 0
check "unless it is forced" gzip -t -S .trace other.trace
run "$acre" trace --pack demo.gz demo.trace
expect_rc 0

# '-' is standard input and output.
"$acre" trace --list - <demo.gz >dash.list
check "stdin is read" cmp dash.list list
"$acre" trace --pack - demo.trace >dash.gz 2>dash.err
check "stdout is written" cmp <(gzip -dc dash.gz) demo.trace
check "and nothing is said" test ! -s dash.err
"$acre" trace --json - <demo.trace >"$out"
expect_json '.file == "standard input"'
run "$acre" trace --pack none/demo.gz demo.trace
expect_rc 2
expect_err 'cannot write none/demo.gz'

# Live memory over time, by tag and by pool, at the peak and at the end. The example keeps 20 MiB of
# weights, 12 activations of 2 MiB, and half of 12 inputs of 300 KiB.
run ACRE_DEVICE=soft ACRE_TRACE=tags.trace "$ACRE_BUILD/examples/oom_report"
expect_rc 0
run "$acre" trace tags.trace
expect_rc 0
expect_out '^live +peak 47\.5 MiB requested .*; at the end 45\.8 MiB in 19 blocks$'
expect_out '^Live memory over time: each line has the peak of [0-9.]+ (us|ms|s)$'
check "one line is the peak" test "$(grep -cE '^ +[0-9.]+ (ns|us|ms|s) +47\.5 MiB  #{50} peak$' "$out")" -eq 1
expect_out '^TAG +PEAK +AT PEAK +BLOCKS +AT END +BLOCKS +ALLOCS$'
expect_out '^model/activations +24 MiB +24 MiB +12 +24 MiB +12 +12$'
expect_out '^model/weights +20 MiB +20 MiB +1 +20 MiB +1 +1$'
expect_out '^input +3\.5 MiB +3\.5 MiB +12 +1\.8 MiB +6 +12$'
expect_out '^POOL +PEAK +AT PEAK +BLOCKS +AT END +BLOCKS +ALLOCS$'
expect_out '^soft:0 device +47\.5 MiB +47\.5 MiB +25 +45\.8 MiB +19 +25$'
expect_out '^Largest blocks at the peak \(10 of 25\)$'
expect_out '^Largest blocks at the end \(10 of 19\)$'
expect_out '^ +1 +20 MiB  soft:0 device  model/weights +[0-9.]+ [um]?s$'
run "$acre" trace --json tags.trace
expect_rc 0
expect_json '[.by_tag[] | [.name, .peak_bytes, .at_peak_bytes, .live_bytes, .live_blocks]] ==
    [["model/activations", 25165824, 25165824, 25165824, 12],
     ["model/weights", 20971520, 20971520, 20971520, 1],
     ["input", 3686400, 3686400, 1843200, 6]]'
expect_json '([.by_tag[].live_bytes] | add) == .live_bytes and ([.by_pool[].live_bytes] | add) == .live_bytes'
expect_json '([.by_tag[].at_peak_bytes] | add) == .peak_bytes and .damage == null'
expect_json '(.timeline.peak_bytes | max) == .peak_bytes and (.timeline.peak_bytes | length) <= 24'
expect_json '.timeline.step_ns * (.timeline.peak_bytes | length) > .duration_ns and .peak_ns <= .duration_ns'
expect_json '.largest_at_peak[0].bytes == 20971520 and (.largest_at_end | length) == 10'

# A tag that peaked before the program did, a block without a tag, and a block that changes its size. A
# sanitizer build would need flags to link the program.
if ! is_sanitized; then
    cat >phases.c <<'C'
#include <acre.h>
int main(void) {
    acre_device *device;
    acre_pool *pool;
    acre_stream stream;
    void *first, *second, *plain;
    if (acre_open("soft", NULL, &device) || acre_pool_create(device, NULL, &pool) ||
        acre_stream_create(device, ACRE_STREAM_DEFAULT, &stream) || acre_tag_push("early") ||
        acre_pool_alloc(pool, 8 << 20, 0, stream, &first) ||
        acre_pool_free(pool, first, stream) || acre_tag_pop() || acre_tag_push("late") ||
        acre_pool_alloc(pool, 1 << 20, 0, stream, &second) ||
        acre_pool_realloc(pool, second, 12 << 20, stream, &second) ||
        acre_tag_pop() || acre_pool_alloc(pool, 4096, 0, stream, &plain)) {
        return 1;
    }
    return acre_pool_free(pool, plain, stream) != ACRE_OK;
}
C
    check "the program compiles" cc -I"$ACRE_SOURCE/include" phases.c -L"$ACRE_BUILD" -lacre \
        "-Wl,-rpath,$ACRE_BUILD" -o phases
    run ACRE_SOFT_BYTES=64MiB ACRE_TRACE=phases.trace ./phases
    expect_rc 0
    run "$acre" trace phases.trace
    expect_rc 0
    expect_out '^late +12 MiB +12 MiB +1 +12 MiB +1 +1$'
    expect_out '^early +8 MiB +0 B +0 +0 B +0 +1$'
    expect_out '^\(no tag\) +4 KiB +4 KiB +1 +0 B +0 +1$'
    expect_out '^Largest blocks at the peak \(2 of 2\)$'
    expect_out '^Largest blocks at the end \(1 of 1\)$'
    run "$acre" trace --json phases.trace
    expect_json '.by_tag[] | select(.name == null) | .id == 0 and .peak_bytes == 4096'
fi

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
# What came before the damage is shown: exit 1, and the list is the beginning of the whole one.
for bytes in 5000 20000 60000; do
    head -c "$bytes" demo.trace >"cut"
    run "$acre" trace --list cut
    expect_rc 1
    expect_err "^acre: cut: byte $bytes: the file ends in the middle of a block; the output has the [0-9]+ events before the damage$"
    lines=$(wc -l <"$out")
    check "some lines" test "$lines" -gt 0 -a "$lines" -lt "$events"
    check "the first ones" cmp "$out" <(head -n "$lines" list)
    check "the message has their number" grep -q " the $lines events " "$err"
done
run "$acre" trace cut
expect_rc 1
expect_out '^damaged +at byte 60000: the file ends in the middle of a block; only events before it are counted$'
expect_out "^events +$lines,"
run_leaks "$acre" trace --json cut
expect_rc 1
expect_json ".events == $lines and .damage.byte == 60000 and .damage.what == \"the file ends in the middle of a block\""
run "$acre" trace --pack cut.gz cut
expect_rc 2
check "a damaged trace is not packed" test ! -e cut.gz
run "$acre" replay --device soft cut
expect_rc 2
expect_err '^acre: cut: byte 60000: the file ends in the middle of a block$'
make_broken demo.trace 8192 '\377\377\377\377'
run "$acre" trace --list broken
expect_rc 1
expect_err '^acre: broken: byte [0-9]+: invalid event; the output has the [0-9]+ events before the damage$'
check "the events before it; the last one can be damaged" cmp <(head -n -1 "$out") <(head -n "$(($(wc -l <"$out") - 1))" list)
check "not all" test "$(wc -l <"$out")" -lt "$events"
# A second block that is damaged does not hide the first.
make_broken demo.trace 69632 '\377\377\377\377'
run "$acre" trace broken
expect_rc 1
expect_out '^damaged +at byte 69632: there is no block where one should begin; '
# Damage at the first event of the last thread does not hide what other threads did before. A block
# has 64 KiB, and a header of 64 bytes that begins with a magic number.
run "$no_gpu" "$smaller" ACRE_TRACE=threads.trace "$acre" bench pool --quick --device soft --case cross-thread
expect_rc 0
"$acre" trace --list threads.trace >threads.list
block=$(($(stat -c %s threads.trace) - 65536))
while [ "$(od -An -tx4 -j "$block" -N4 threads.trace)" != ' 4b425441' ] && [ "$block" -gt 4096 ]; do
    block=$((block - 65536))
done
make_broken threads.trace "$((block + 64))" '\177\177'
run "$acre" trace --list broken
expect_rc 1
expect_err "^acre: broken: byte $((block + 64)): invalid event; the output has the [0-9]+ events before the damage$"
lines=$(wc -l <"$out")
check "most events" test "$lines" -gt 1000 -a "$lines" -lt "$(wc -l <threads.list)"
check "the first ones" cmp "$out" <(head -n "$lines" threads.list)
expect_borne trace demo.trace '\377\377\377\377' 8 16 4100 4104 8192 70000
make_broken demo.trace 4096 '\377\377\377\377'
run "$acre" trace broken
expect_rc 2
expect_err '^acre: broken: byte 4096: there is no block where one should begin$'
head -c 3000 demo.gz >cut.gz
run "$acre" trace cut.gz
expect_rc 1
expect_err '^acre: cut.gz: byte [0-9]+: cannot read: .*unexpected end of file'
expect_err '^acre: cut.gz: byte [0-9]+: the file ends in the middle of a block; the output has the [0-9]+ events'
expect_out '^damaged '
head -c 15 demo.gz >cut.gz
run "$acre" trace cut.gz
expect_rc 2
expect_no_out

# Usage errors.
run "$acre" trace
expect_rc 64
expect_err 'no file given'
run "$acre" trace --json --list demo.trace
expect_rc 64
run "$acre" trace demo.trace ring.trace
expect_rc 64

finish
