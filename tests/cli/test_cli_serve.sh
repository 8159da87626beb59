#!/usr/bin/env bash
# acre run on a GPU: the program's device memory comes from acre's pool, and the program cannot tell.
# The stand-in of libcuda.so.1 is the driver here.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 2

needs_shim
export LD_LIBRARY_PATH="$ACRE_BUILD/soft"
cases=$ACRE_BUILD/tests/standin/serve_cases
conformance=$ACRE_BUILD/tests/conformance/conformance
examples=$ACRE_BUILD/examples/cuda

# ---- what is served ----

for gate in audit preload; do
    for name in served own reset idle threads thread-exit callback-exit fork capture captures-end reset-race ipc life; do
        run ACRE_SOFT_BYTES=512MiB "$acre" run --device cuda --gate=$gate -- "$cases" $name
        expect_rc 0
        expect_out "^$name: ok\$"
    done
done
run ACRE_SOFT_DEVICES=2 ACRE_SOFT_BYTES=512MiB "$acre" run --device cuda -- "$cases" peer served
expect_rc 0
# Without virtual memory management.
run ACRE_VMM=no ACRE_SOFT_BYTES=512MiB "$acre" run --device cuda -- "$cases" served own reset idle threads capture \
    captures-end reset-race life
expect_rc 0
run "$acre" run --zero -- "$cases" zero served
expect_rc 0
run "$acre" run --free=defer -- "$cases" served threads reset captures-end reset-race life
expect_rc 0
run "$acre" run --ipc=driver -- "$cases" served ipc-driver
expect_rc 0
# Memory of another process counts there.
run "$acre" run --device cuda --limit 8MiB -- "$cases" ipc
expect_rc 0
expect_out '^ipc: ok$'
run "$acre" run --device cuda -- "$cases" ipc-closed
expect_rc 0
run "$acre" run --device cuda -- "$cases" ipc-refused
expect_rc 0
expect_err '^acre: cuIpcGetMemHandle: cannot serve other processes; run both programs with acre run --ipc=driver$'
run ACRE_SOFT_LAG=50ms "$acre" run --device cuda -- "$cases" memops
expect_rc 0
# The driver lacks memory for a call that is no allocation.
run ACRE_FAULT=cuCtxSetLimit:1:once "$acre" run --device cuda -- "$cases" retry
expect_rc 0
run ACRE_FAULT=cuCtxSetLimit:1:from "$acre" run --device cuda -- "$cases" retry
expect_rc 1
expect_out 'cuCtxSetLimit.*: 2$'
# Without acre the cases fail that look for it.
run "$cases" served
expect_rc 1

# ---- a program cannot tell ----

# The conformance suite says what the driver answers, call by call. The driver refuses copies from and
# to freed memory; acre's memory is still there.
# The suite mostly waits, so all runs are at the same time.
groups=before,device,context,limits,chunk,map,plain,host,pointer,copy,stream,capture,graph,null,pool,async,own,reset
# conform NAME GROUPS COMMAND...: starts the suite with COMMAND before it.
conform() {
    local name=$1 some=$2
    shift 2
    "$@" "$conformance" --driver cuda --group "$some" >"$work/$name.out" 2>"$work/$name.err" </dev/null &
    suite_pid[$name]=$!
}
# conforms NAME [LINES]: its output is that without acre, which is in LINES.
conforms() {
    wait "${suite_pid[$1]}"
    check "conformance $1: exit code" test $? -eq 0
    [ $# -eq 1 ] || check "conformance $1: lines" test "$(wc -l <"$work/$1.out")" -eq "$(wc -l <"$2")"
    [ $# -eq 1 ] || check "conformance $1" test -z "$(diff "$2" "$work/$1.out" | grep '^>' | grep -v '^> copy\.freed: ')"
}
declare -A suite_pid
conform plain "$groups,wait,managed,fill,event,order" env
conform served "$groups,wait,managed,fill,event,order" "$acre" run --device cuda --
conform preload "$groups" "$acre" run --gate=preload --
conform limit "$groups" "$acre" run --limit 15TiB --
conform watch "$groups" "$acre" run --watch --
conforms plain
conforms served "$work/plain.out"
grep -v '^\(wait\|managed\|fill\|event\|order\)\.' "$work/plain.out" >"$work/some"
for name in preload limit watch; do
    conforms $name "$work/some"
done

for example in "$examples"/*; do
    [ -f "$example" ] || continue
    run "$example"
    plain=$rc
    cp "$out" "$work/plain"
    run "$acre" run -- "$example"
    check "exit code of $example" test "$rc" -eq "$plain"
    check "output of $example" cmp -s "$out" "$work/plain"
    run "$acre" run --limit 256MiB --stats --leaks -- "$example"
    check "exit code of $example" test "$rc" -eq "$plain"
done

# ---- limits ----

limited=$ACRE_BUILD/tests/standin/limit_cases
for name in race kill; do
    run timeout 200 "$acre" run --device cuda --limit 64MiB -- "$limited" $name
    expect_rc 0
    expect_out "^$name: ok\$"
done
# Memory that acre holds idle goes back when the limit falls, although the program does nothing.
mkfifo asks answers
"$acre" run --device cuda --limit 64MiB -- "$limited" shell <asks >answers &
tool=$!
exec 7>asks 8<answers
for line in "alloc $((48 << 20))" free; do
    echo "$line" >&7
    read -r _ <&8
done
run "$acre" limit --json $tool
expect_json '.used_bytes >= 50331648'
run "$acre" limit $tool 16MiB
# shellcheck disable=SC2317 # wait_for calls it
is_back() {
    run "$acre" limit --json "$tool"
    jq -e '.limit_bytes == 16777216 and .used_bytes <= 16777216' "$out" >/dev/null
}
wait_for is_back
exec 7>&-
wait $tool
check "exit code of the program" test $? -eq 0
exec 8<&-

# ---- every driver call fails once ----

# The program may fail, but it must not crash or hang. Each of the seven cases has every seventh call.
first=0
for name in life served idle threads-brief capture reset own; do
    first=$((first + 1))
    for nth in $(seq $first 7 98); do
        run ACRE_SOFT_BYTES=512MiB timeout 200 "$acre" run --device cuda -- env "ACRE_FAULT=*:$nth:once" "$cases" $name
        check "$name, call $nth fails: exit code $rc" test "$rc" -le 1
    done
done

# ---- traces ----

for options in "--device cuda" --watch "--device soft"; do
    # shellcheck disable=SC2086 # options are words
    run "$acre" run $options --trace "my, trace.acre" -- "$cases" life
    expect_rc 0
    run "$acre" trace --json "my, trace.acre"
    expect_rc 0
    expect_json '.kinds.alloc == 4 and .kinds.free == 4 and .live_bytes == 0 and .peak_bytes > 8388608'
done
run "$acre" trace "my, trace.acre"
expect_out ' device$'

# ---- reports and usage ----

run "$acre" run --stats --leaks -- "$cases" served
expect_rc 0
expect_err '^acre: everything was freed$'
expect_err '^  device +2 +2 +0 '
run "$acre" run --free=never -- true
expect_rc 64
expect_err '--free takes wait or defer'
run "$acre" run --watch --zero -- true
expect_rc 64
run "$acre" run --device cuda --bytes 1GiB -- true
expect_rc 64
run "$acre" run --device gpu -- true
expect_rc 2
# Under a profiler acre only watches.
run CUDA_INJECTION64_PATH=/nonexistent/libinjection.so "$acre" run -- "$cases" served
expect_rc 1
expect_err '^acre: .* only watches'

finish
