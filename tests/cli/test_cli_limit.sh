#!/usr/bin/env bash
# acre run --limit and acre limit: programs get at most so much device memory, whichever way they ask
# for it, in several processes, and when processes are killed. The stand-in is the driver here.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 2

needs_shim
cases=$ACRE_BUILD/tests/standin/limit_cases
examples=$ACRE_BUILD/examples/cuda
mib=1048576

limited() { run timeout 200 "$acre" run --device soft --limit 64MiB "$@"; }

# ---- counting, refusing, and what the program sees ----

for gate in audit preload; do
    for case in plain chunks import contexts arguments; do
        limited --gate=$gate -- "$cases" $case
        expect_rc 0
        expect_out "^$case: ok\$"
        expect_no_err
    done
    for case in pools fill owner; do # which ask for more than the limit
        limited --gate=$gate -- "$cases" $case
        expect_rc 0
        expect_out "^$case: ok\$"
        expect_err '^acre: limit_cases: the limit of 64 MiB refused [1-9] requests, the last one of 6[24] MiB$'
        check "one line" test "$(wc -l <"$err")" -eq 1
    done
    limited --gate=$gate -- "$cases" arrays
    expect_rc 0
    expect_out '^arrays: ok$'
    run LD_LIBRARY_PATH="$ACRE_BUILD/tests/standin/nvml" \
        "$acre" run --device soft --limit 64MiB --gate=$gate -- "$cases" nvml
    expect_rc 0
    expect_out '^nvml: ok$'
done
run "$acre" run --device soft --limit 8MiB -- "$cases" pieces
expect_rc 0
expect_out '^pieces: ok$'
# With a report the ledger is above the limit.
limited --stats --leaks -- "$cases" plain
expect_rc 0
expect_err '^acre: everything was freed$'
limited --errors -- "$cases" fill
expect_rc 1
expect_err 'out of memory: 1 byte requested, 0 bytes of the limit of 64 MiB left'
# The driver's own limit still counts: the smaller one is what the program sees.
run "$acre" run --device soft --bytes 32MiB --limit 64MiB -- "$cases" plain
expect_rc 0
# --check needs the stand-in's report.
limited --check -- "$cases" plain
expect_rc 0

# ---- several processes ----

limited -- "$cases" fork-exec
expect_rc 0
expect_out '^fill: ok$'
limited --limit-each -- "$cases" each
expect_rc 0
expect_out '^each: ok$'
limited -- "$cases" slots
expect_rc 0
expect_err '^acre: 1024 processes under this memory limit use CUDA already; process [0-9]+ gets no device memory$'
check "the message comes once" test "$(grep -c 1024 "$err")" -eq 1
limited -- "$cases" race
expect_rc 0
expect_out '^race: ok$'
for lag in 0 20ms; do
    run ACRE_SOFT_LAG=$lag timeout 200 "$acre" run --device soft --limit 64MiB -- "$cases" async
    expect_rc 0
    expect_out '^async: ok$'
done
limited -- "$cases" kill
expect_rc 0
expect_out '^kill: ok$'
# A program that starts acre run itself stays under the limit.
limited -- "$cases" locked
expect_rc 0
expect_out '^locked: ok$'
limited -- "$acre" run --limit 8MiB -- "$cases" plain
expect_rc 2
expect_err "^acre: this runs under 'acre run --limit' already"
limited -- "$acre" run --leaks -- "$cases" plain
expect_rc 0
expect_out '^plain: ok$'

# ---- acre limit ----

mkfifo asks answers
"$acre" run --device soft --limit 64MiB -- "$cases" shell <asks >answers 2>shell.err &
tool=$!
exec 7>asks 8<answers
# ask WORDS EXPECTED: sends a line to the program and compares its answer.
ask() {
    echo "$1" >&7
    read -r answer <&8
    check "answer to '$1' is '$2', not '$answer'" test "$answer" = "$2"
}
ask "alloc $((48 * mib))" 'alloc 0'
run "$acre" limit $tool
expect_rc 0
expect_out '^limit 64 MiB, used 48 MiB$'
expect_out '^ *[0-9]+ +48 MiB +limit_cases *$'
run "$acre" limit --json $tool
expect_json ".schema == \"acre-limit/1\" and .pid == $tool and .limit_bytes == 67108864 and .each == false and
    .used_bytes == 50331648 and .processes[0].used_bytes == 50331648 and .processes[0].program == \"limit_cases\""
child=$(jq .processes[0].pid "$out")
# Another user's program.
nobody=(setpriv --reuid 65534 --clear-groups)
if [ "$(id -u)" -eq 0 ] && "${nobody[@]}" "$acre" --version >/dev/null 2>&1; then
    run "${nobody[@]}" "$acre" limit $tool 1GiB
    expect_rc 2
    expect_err 'only its own user may, or root \(the kernel requires ptrace access\)'
fi
# Lowered below what is in use, by any process of the run.
run "$acre" limit "$child" 32MiB
expect_rc 0
expect_out '^limit 32 MiB, used 48 MiB$'
ask 'alloc 1' 'alloc 2'
ask info "info 0 $((32 * mib))"
ask free free
ask "alloc $((32 * mib))" 'alloc 0'
ask 'alloc 1' 'alloc 2'
run "$acre" limit $tool 128MiB
expect_out '^limit 128 MiB, used 32 MiB$'
ask info "info $((96 * mib)) $((128 * mib))"
ask "alloc $((96 * mib))" 'alloc 0'
exec 7>&-
wait $tool
check "exit code of the program" test $? -eq 0
exec 8<&-
run "$acre" limit $tool
expect_rc 2
expect_err "^acre: there is no process $tool\$"
run "$acre" limit $$
expect_rc 2
expect_err "does not run under 'acre run --limit'"

# ---- programs ----

for example in "$examples"/*; do
    [ -f "$example" ] || continue # not the folder of object files
    [ -x "$example" ] || continue
    run "$acre" run -- "$example"
    plain=$rc
    cp "$out" "$work/plain"
    run "$acre" run --limit 256MiB --stats --leaks -- "$example"
    check "exit code of $(basename "$example")" test "$rc" -eq "$plain"
    check "output of $(basename "$example")" cmp -s "$out" "$work/plain"
done
# The stand-in as NVIDIA's driver.
run LD_LIBRARY_PATH="$ACRE_BUILD/soft" "$acre" run --watch --limit 64MiB -- "$cases" fill
expect_rc 0
expect_err '^acre: allocations: '

# ---- usage ----

for words in '--limit 0' '--limit x' '--limit 17TiB' --limit-each; do
    # shellcheck disable=SC2086 # the words of a command
    run "$acre" run $words -- true
    expect_rc 64
done
for words in '' 0 x '1 x' '1 17TiB' '1 20' '1 1MiB' '1 1.5GiB' '1 2MiB 2'; do
    # shellcheck disable=SC2086 # the words of a command
    run "$acre" limit $words
    expect_rc 64
done

# ---- arrays and graphs, which the stand-in lacks ----

for gate in audit preload; do
    for case in plain fails context race graphs pool; do
        run LD_LIBRARY_PATH="$ACRE_BUILD/tests/standin/array_driver" \
            "$acre" run --watch --gate=$gate --limit 64MiB -- "$ACRE_BUILD/tests/standin/array_cases" $case
        expect_rc 0
        expect_out "^$case: ok\$"
    done
done

# ---- --limit-all: what NVML shows beyond the counted memory ----

run LD_LIBRARY_PATH="$ACRE_BUILD/tests/standin/nvml_cards" NVML_FAILS=1 \
    "$acre" run --device soft --limit 64MiB --limit-all -- "$cases" plain
expect_rc 2
expect_err '^acre: --limit-all needs NVML'
mkfifo all.asks all.answers
LD_LIBRARY_PATH="$ACRE_BUILD/tests/standin/nvml_cards" NVML_FILE="$work/nvml" \
    "$acre" run --device soft --limit 64MiB --limit-all -- "$cases" shell <all.asks >all.answers 2>all.err &
tool=$!
exec 7>all.asks 8<all.answers
ask "alloc $((16 * mib))" 'alloc 0'
child=$("$acre" limit --json $tool | jq .processes[0].pid)
# uses BYTES: acre limit says so.
# shellcheck disable=SC2317 # wait_for calls it
uses() {
    run "$acre" limit --json "$tool"
    [ "$(jq .used_bytes "$out")" -eq "$1" ]
}
# 16 MiB and a context of 40 MiB: 8 MiB are left.
echo "$child:0:56" >nvml
wait_for uses $((56 * mib))
expect_json ".all and .used_bytes == $((56 * mib)) and .processes[0].other_bytes == $((40 * mib))"
run "$acre" limit $tool
expect_out '^ *[0-9]+ +56 MiB +40 MiB +limit_cases *$'
ask info "info $((8 * mib)) $((64 * mib))"
ask "alloc $((9 * mib))" 'alloc 2'
ask "alloc $((8 * mib))" 'alloc 0'
# It takes more than the limit allows: nothing is granted until enough was freed.
echo "$child:0:80" >nvml
wait_for uses $((80 * mib))
ask 'alloc 1' 'alloc 2'
exec 7>&-
wait $tool
check "exit code of the program" test $? -eq 0
exec 8<&-

finish
