#!/usr/bin/env bash
# acre run, its reports: refused calls, races, suppressions, JSON, programs that use libacre, and
# programs that end without exit handlers.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 2

cases=$ACRE_BUILD/tests/standin/run_cases
acre_cases=$ACRE_BUILD/tests/api/acre_cases
# A sanitizer's library may load after the stand-ins, and leaves faults and aborts to the program.
export ASAN_OPTIONS="$ASAN_OPTIONS:verify_asan_link_order=0:handle_segv=0:handle_abort=0"
export TSAN_OPTIONS="${TSAN_OPTIONS:-}:handle_segv=0:handle_abort=0:atexit_sleep_ms=0"

soft() { run "$acre" run "$@"; }
at='run_cases\+0x[0-9a-f]+ \([a-z_]+ at run_cases\.c:[0-9]+\)'

# ---- refused calls ----

soft --errors -- "$cases" clean
expect_rc 0
expect_err '^acre: no call was refused$'
check "one line" test "$(wc -l <"$err")" -eq 1
soft --errors -- "$cases" expected
expect_rc 0
expect_err '^acre: no call was refused$'

soft --errors -- "$cases" double-free
expect_rc 1
expect_err '^acre: refused calls: 3$'
expect_err '^    count  call +error +called at$'
expect_err "^        2  cudaFree +cudaErrorInvalidValue +$at\$"
expect_err "^           double free: 4096 bytes from cudaMalloc, called at $at, were freed by cudaFree, called at $at\$"
expect_err "^        1  cudaFreeHost +cudaErrorInvalidValue +$at\$"
expect_err "^           invalid free: 0x[0-9a-f]+ is not an address of CUDA's memory\$"
soft --errors -- "$cases" double-free 5
expect_rc 5
soft --errors -- "$cases" overrun
expect_rc 1
expect_err '^acre: refused calls: 4$'
expect_err "^           out of bounds: 8192 bytes at byte 0 of 4096 bytes from cudaMalloc, called at $at\$"
expect_err "^           out of bounds: 100 bytes at byte 4000 of 4096 bytes from cudaMalloc, called at $at\$"
expect_err "^           out of bounds: 5000 bytes at byte 0 of 4096 bytes from cudaMalloc, called at $at\$"
expect_err "^           use after free: 4096 bytes from cudaMalloc, called at $at, were freed by cudaFree, called at $at\$"
soft --errors -- "$cases" wrong-free
expect_rc 1
expect_err "^           invalid free: 0x[0-9a-f]+ is byte 16 of 4096 bytes from cudaMalloc, called at $at\$"
expect_err "^           wrong kind of free: 0x[0-9a-f]+ has 4096 bytes from cudaMalloc, called at $at\$"
expect_err "^        1  cudaMalloc +cudaErrorMemoryAllocation +$at\$"
expect_err '^           out of memory: 1 EiB requested, [0-9.]+ [MG]iB of [0-9.]+ [MG]iB free$'
soft --errors -- "$cases" places # more than one chunk of the file
expect_rc 1
expect_err '^acre: refused calls: 256$'
check "256 rows" test "$(grep -c "^        1  cudaFree " "$err")" -eq 256
# Other reports mention refused calls, but these do not change the exit code.
soft --leaks -- "$cases" double-free
expect_rc 0
expect_err '^acre: refused calls: 3; --errors lists them$'
expect_err '^acre: everything was freed$'

# Calls that the soft device does not support are listed with every report, and are errors.
for want in --errors --leaks; do
    soft "$want" -- "$cases" kernel
    expect_err '^acre: calls that the soft device does not support: 2$'
    expect_err "^        2  cuModuleGetFunction +CUDA_ERROR_NOT_SUPPORTED +$at\$"
    check "exit code of $want" test "$rc" -eq "$([ "$want" = --errors ] && echo 1 || echo 0)"
done
soft --leaks -- "$cases" others
expect_rc 2
expect_err '^acre: run_cases could not use CUDA$'
expect_err "^        2  cuGraphCreate +CUDA_ERROR_NOT_SUPPORTED +$at\$"
check "nothing about leaks" test "$(grep -c 'freed' "$err")" -eq 0

# ---- races ----

soft --check -- "$cases" clean
expect_rc 0
expect_err '^acre: no races between streams$'
soft --check -- "$cases" race
expect_rc 1
expect_err '^acre: wrong uses of memory: 1$'
expect_err "^  race: [0-9]+ bytes are used without order by stream .*; 0x[0-9a-f]+ is byte 0 of 4096 bytes from cudaMalloc, called at $at\$"
# Calls on the lost device are a consequence, and memory that cannot be freed any more is no leak.
soft --check --errors --leaks -- "$cases" race
expect_rc 1
expect_err '^acre: no call was refused$'
expect_err '^acre: everything was freed$'
if ! is_sanitized; then # which finds the race itself
    soft --stats -- "$cases" race
    expect_rc 0
fi

# ---- suppressions ----

cat >known.txt <<'RULES'
# Known findings.
leak:cudaMalloc*   # both calls
  leak:cuMem*

error:cudaErrorInvalidValue
leak:libother.so
race:race: * bytes are used without order*
RULES
soft --leaks --suppress known.txt -- "$cases" leak
expect_rc 0
expect_err '^acre: not freed: 0 \(suppressed: 6\)$'
expect_err '^acre: known.txt: not used: error:cudaErrorInvalidValue$'
expect_err '^acre: known.txt: not used: leak:libother.so$'
expect_err '^acre: known.txt: not used: race:race: \* bytes are used without order\*$'
check "four lines" test "$(wc -l <"$err")" -eq 4
echo 'leak:cudaMallocHost' >one.txt
soft --leaks --suppress one.txt -- "$cases" leak
expect_rc 1
expect_err '^acre: not freed: 5 \(suppressed: 1\)$'
check "not listed" test "$(grep -c cudaMallocHost "$err")" -eq 0
echo 'leak:run_cases' >module.txt
soft --leaks --suppress module.txt -- "$cases" leak
expect_rc 0
expect_err '^acre: not freed: 0 \(suppressed: 6\)$'
soft --errors --check --suppress known.txt -- "$cases" double-free
expect_rc 0
expect_err '^acre: refused calls: 0 \(suppressed: 3\)$'
soft --errors --check --suppress known.txt -- "$cases" race
expect_rc 0
expect_err '^acre: wrong uses of memory: 0 \(suppressed: 1\)$'
soft --leaks --suppress known.txt -- "$cases" abort
expect_rc 134
expect_err '^acre: not freed: 0 \(suppressed: 6\)$'
for line in 'leak' 'leak:' 'leak: # nothing' 'cudaMalloc' 'leaks:x'; do
    printf '# first\n\n%s\n' "$line" >bad.txt
    soft --leaks --suppress bad.txt -- "$cases" clean
    expect_rc 2
    expect_err '^acre: bad.txt:3: a suppression is leak:PATTERN, error:PATTERN or race:PATTERN$'
done
printf 'leak:\0x\n' >bad.txt
soft --leaks --suppress bad.txt -- "$cases" clean
expect_rc 2
expect_err '^acre: bad.txt is not a file of suppressions$'
seq -f 'leak:%g' 2000 >bad.txt
soft --leaks --suppress bad.txt -- "$cases" clean
expect_rc 2
expect_err '^acre: bad.txt has too many suppressions: at most 1024'
soft --leaks --suppress nonexistent -- "$cases" clean
expect_rc 2
expect_err '^acre: cannot read nonexistent: No such file'
soft --suppress known.txt -- "$cases" clean
expect_rc 64
expect_err '--suppress needs --leaks, --errors or --check$'

# ---- JSON ----

soft --json=report.json --leaks --errors --stats --suppress one.txt -- "$cases" leak
expect_rc 1
expect_no_err
out=report.json
expect_json '.schema == "acre-run/1" and .program == "run_cases" and .end == "exit" and .used_cuda'
expect_json '.findings == 5 and .leak_count == 5 and (.leaks | length) == 4 and .error_count == 0'
expect_json '.leaks[-1] | .call == "cudaMalloc" and .count == 3 and .bytes == 3000 and .kind == "device"'
expect_json '[.leaks[].bytes] | . == (sort | reverse)'
expect_json '[.leaks[] | select(.suppressed) | .call] == ["cudaMallocHost"]'
expect_json '[.memory[] | select(.kind == "device")][0] | .made == 3 and .freed == 0 and .left_bytes == 3000'
soft --json --errors -- "$cases" double-free
out=$err
expect_json '.errors[0] | .call == "cudaFree" and .count == 2 and .code == 1 and (.why | test("^double free"))'
soft --json=- --check -- "$cases" race
expect_rc 1
expect_json '.race_count == 1 and (.races[0].text | test("without order"))'
soft --json=report.json --leaks -- "$cases" fork-before
out=report.json
check "two lines" test "$(wc -l <report.json)" -eq 2
soft --json=report.json --leaks -- "$cases" abort
out=report.json
expect_json '.end == "SIGABRT" and .leak_count == 6'
soft --json=/nonexistent/report --leaks -- "$cases" wait # not started, or it would wait forever
expect_rc 2
expect_err '^acre: cannot write /nonexistent/report: No such file'

# The file for JSON replaces only a report of acre run, or any file with --force, and only if the
# program was started.
echo 'dear reader' >letter
cp letter kept
soft --json=letter --leaks -- "$cases" clean
expect_rc 2
expect_err '^acre: cannot write letter: acre did not write the existing file; choose another file, or replace it with --force$'
soft --json=one.txt --leaks --suppress one.txt -- "$cases" clean
expect_rc 2
expect_err '^acre: cannot write one.txt: it is the input one.txt; '
check "the suppressions are unchanged" grep -qx 'leak:cudaMallocHost' one.txt
cp report.json report.kept
for file in letter report.json fresh.json; do
    soft --json="$file" --force --suppress known.txt -- ./nonexistent
    expect_rc 127
    check "one line" test "$(wc -l <"$err")" -eq 1
    soft --json="$file" --force -- "$ACRE_SOURCE/README.md"
    expect_rc 126
done
check "the letter is unchanged" cmp letter kept
check "the report is unchanged" cmp report.json report.kept
check "no new file" test ! -e fresh.json
soft --json=report.json --leaks -- "$cases" nothing 127 # a program that was started
expect_rc 127
check "a report without processes" test ! -s report.json
for options in --force -f; do
    cp kept letter
    soft --json=letter "$options" --leaks -- "$cases" leak
    expect_rc 1
    out=letter
    expect_json '.leak_count == 6'
done
check "no temporary file" sh -c '! ls | grep -E "^(letter|report[.]json)[.]"'

# ---- ends without exit handlers ----

soft --leaks --errors --stats -- "$cases" abort
expect_rc 134
expect_err '^acre: run_cases was killed by SIGABRT$'
expect_err '^acre: not freed: 6$'
expect_err "^ +2\\.9 KiB +3  device +cudaMalloc +0x[0-9a-f]+ +$at\$"
expect_err '^acre: allocations: 5, 2 MiB in all; freed: 0; '
soft --leaks --stats -- "$cases" many # more than one chunk of the file
expect_rc 134
expect_err '^acre: not freed: 3000$'
expect_err "^ +1\.4 MiB +1500  device +cudaMalloc +0x[0-9a-f]+ +$at\$"
expect_err "^ +14\.6 KiB +1500  device +cudaMalloc +0x[0-9a-f]+ +$at\$"
expect_err '^  device +4500 +1500 +0 +2\.9 MiB +1\.4 MiB$'
soft --leaks -- "$cases" kill
expect_rc 137
expect_err '^acre: run_cases was killed by SIGKILL$'
expect_err '^acre: not freed: 6$'
soft --leaks -- "$cases" quick-exit
expect_rc 1
expect_err '^acre: run_cases ended without its exit handlers \(_exit, quick_exit or exec\)$'
expect_err '^acre: not freed: 6$'
soft --leaks -- "$cases" fault-device
expect_rc 139
expect_err '^acre: the host touched '
expect_err '^acre: run_cases was killed by SIGSEGV$'
expect_err '^acre: not freed: 1$'
soft --leaks -- "$cases" kill-child
expect_rc 1
expect_err '^acre: everything was freed$'
expect_err '^acre: process [0-9]+, run_cases, ended without a report:$'
expect_err '^acre: not freed: 6$'

# A finding in a process that the program started counts, too, even if that process has reported
# it and the program ignores its exit code.
in_child() { run CHILD="$1" "$acre" run "${@:2}" -- "$cases" child; }
in_child leak --leaks
expect_rc 1
expect_err '^acre: process [0-9]+, run_cases:$'
expect_err '^acre: not freed: 6$'
expect_err '^acre: everything was freed$'
in_child leak --leaks --json=report.json
expect_rc 1
in_child double-free --errors
expect_rc 1
in_child race --check
expect_rc 1
in_child clean --leaks --errors --check
expect_rc 0
in_child leak --errors --check
expect_rc 0
in_child leak --leaks --suppress module.txt
expect_rc 0
run CHILD=leak "$acre" run --leaks -- "$cases" child 3
expect_rc 3
if ! is_sanitized; then # sanitizer libraries cannot load late into a program without them
    # shellcheck disable=SC2016 # for the inner shell
    soft --leaks -- bash -c 'kill -KILL $$'
    expect_rc 137
    expect_err '^acre: bash has not used CUDA$'
fi
soft --leaks -- ./nonexistent
expect_rc 127
check "one line" test "$(wc -l <"$err")" -eq 1

# has_ended PID: a dead process may wait for its new parent.
# shellcheck disable=SC2317 # wait_for and check call it
has_ended() {
    state=$(awk '{ print $3 }' "/proc/$1/stat" 2>/dev/null)
    [ "${state:-Z}" = Z ]
}

# start_waiting: starts a program that waits for SIGTERM, and sets $tool.
start_waiting() {
    out=$work/waiting.out
    err=$work/waiting.err
    last="acre run --leaks -- run_cases wait"
    rm -f "$out"
    "$acre" run --leaks -- "$cases" wait >"$out" 2>"$err" &
    tool=$!
    wait_for grep -qs ready "$out"
}

# A signal to the tool goes to the program, whose handler and exit code count.
start_waiting
kill -TERM "$tool"
wait "$tool"
rc=$?
expect_rc 6
expect_out '^got it$'
expect_err '^acre: not freed: 6$'

# The program does not survive the tool.
start_waiting
child=$(pgrep -P "$tool")
kill -KILL "$tool"
wait "$tool" 2>/dev/null
wait_for has_ended "$child"
check "there was a program" test -n "$child"
check "the program ended ($state)" has_ended "$child"

# On a terminal Ctrl-Z, SIGCONT and Ctrl-C act on the tool and the program.
last="run_terminal.py"
if has_terminals; then
    check "a job on a terminal" python3 "$ACRE_SOURCE/tests/cli/run_terminal.py" \
        "$acre" run --leaks -- "$cases" wait
else
    without_terminals
fi

# The tool reads any records, and says if the heads of the file are damaged, which it cannot read.
damage="acre: run_cases: the report is incomplete: the program has overwritten acre's records"
for seed in $(seq 20); do
    run SEED="$seed" HEADS=keep "$acre" run --leaks --errors --stats --check -- "$cases" scribble
    check "no crash of the tool, seed $seed" test "$rc" -le 1
    expect_plain
    expect_err '^acre: run_cases ended without its exit handlers'
    run SEED="$seed" HEADS=keep "$acre" run --json --leaks --stats -- "$cases" scribble
    check "no crash of the tool, seed $seed" test "$rc" -le 1
    check_json "seed $seed" '.program == "run_cases" and .end == "_exit" and .used_cuda' "$err"
    run SEED="$seed" "$acre" run --leaks --errors --stats --check -- "$cases" scribble
    expect_rc 2
    check "no other line" test "$(cat "$err")" = "$damage"
    run SEED="$seed" "$acre" run --json --leaks --stats -- "$cases" scribble
    expect_rc 2
    check_json "seed $seed" '.program == "run_cases" and .end == "_exit" and (.complete | not)' "$err"
done
for bytes in 1024 1000000; do # the first head; all
    run BYTES="$bytes" "$acre" run --leaks -- "$cases" zero
    expect_rc 2
    check "$bytes zeros" test "$(tail -n 1 "$err")" = "$damage"
    run BYTES="$bytes" "$acre" run --json --leaks -- "$cases" zero
    expect_rc 2
    check_json "$bytes zeros" '.program == "run_cases" and .end == "_exit" and (.complete | not)' "$err"
done

# A chunk that a process takes meanwhile is no damage.
for _ in 1 2 3; do
    run "$acre" run --leaks -- "$cases" busy-child
    expect_rc 0
    check "no damage" test "$(grep -c overwritten "$err")" = 0
done

# ---- programs that use libacre ----

for device in soft cuda; do
    soft --leaks --errors -- "$acre_cases" "$device" clean
    expect_rc 0
    expect_err '^acre: no call was refused$'
    expect_err '^acre: everything was freed$'
    soft --leaks -- "$acre_cases" "$device" leak
    expect_rc 1
    expect_err '^acre: not freed: 4$'
    expect_err '^ +2\.9 KiB +3  acre +acre_alloc +\? +acre_cases\+0x[0-9a-f]+ \(leak_blocks at acre_cases\.c:[0-9]+\)$'
    expect_err '^ +4 KiB +1  acre +acre_mem_alloc +\? +acre_cases\+0x[0-9a-f]+ \(leak_blocks at acre_cases\.c:[0-9]+\)$'
    soft --leaks -- "$acre_cases" "$device" objects
    expect_rc 1
    expect_err '^ +500 bytes +1  acre +acre_pool_alloc '
    expect_err '^ +0 bytes +1  acre +acre_vec_create '
    soft --leaks -- "$acre_cases" "$device" open
    expect_rc 1
    expect_err '^acre: not freed: 1$' # memory that libacre holds for the device is not listed
    expect_err '^ +0 bytes +1  acre devices +acre_open +0x[0-9a-f]+ +acre_cases\+0x[0-9a-f]+ \(main at acre_cases\.c:[0-9]+\) \(still open\)$'
    soft --leaks -- "$acre_cases" "$device" open-leak
    expect_rc 1
    expect_err '^acre: not freed: 5$'
    check "largest first" test "$(grep -oE ' acre_(alloc|mem_alloc|open) ' "$err" | paste -sd' ' | xargs)" = \
        'acre_mem_alloc acre_alloc acre_open'
    soft --leaks -- "$acre_cases" "$device" abort # reported by the tool
    expect_rc 134
    expect_err '^acre: not freed: 1$'
done
run ACRE_RUN=1,leaks "$acre_cases" soft leak # without the libraries of acre run
expect_rc 0
expect_no_err

# Races on devices of libacre are found, on its own soft driver and through the stand-in; memory of
# the lost device is no leak.
if ! is_sanitized; then # which finds the race itself
    for device in soft cuda; do
        soft --check --leaks -- "$acre_cases" "$device" race
        expect_rc 1
        expect_err '^acre: wrong uses of memory: 1$'
        expect_err '^  race: 4096 bytes are used without order by .* queued by race_streams at acre_cases\.c:'
        expect_err '^acre: everything was freed$'
    done
fi

# A report on standard output comes after the program's output, and later output comes behind it.
{
    "$acre" run --leaks --json=- -- "$cases" clean
    echo behind
} >joined.txt 2>/dev/null
check "the report is whole" test "$(head -n 1 joined.txt | jq -r .schema)" = acre-run/1
check "later output is behind it" test "$(tail -n 1 joined.txt)" = behind

# A shell that starts the program is not reported.
if ! is_sanitized; then
    soft --leaks -- sh -c "'$cases' clean; '$cases' clean"
    expect_rc 0
    check "two lines" test "$(grep -c 'everything was freed' "$err")" -eq 2
    check "nothing about the shell" test "$(grep -c '^acre: sh ' "$err")" -eq 0
fi

# A program that contains libacre.a: its own functions are named, not acre's.
if ! is_sanitized; then
    cc -g -I"$ACRE_SOURCE/include" "$ACRE_SOURCE/tests/standin/acre_cases.c" "$ACRE_BUILD/libacre.a" -pthread -lm \
        -o acre_static
    soft --leaks -- ./acre_static soft leak
    expect_rc 1
    expect_err '^ +2\.9 KiB +3  acre +acre_alloc +\? +acre_static\+0x[0-9a-f]+ \(leak_blocks at acre_cases\.c:[0-9]+\)$'
fi

finish
