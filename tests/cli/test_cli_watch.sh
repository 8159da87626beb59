#!/usr/bin/env bash
# acre run --watch: programs behave as they do without it, whichever way they find the driver, and
# the report has their memory. The stand-in of libcuda.so.1 is the driver here.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 2

needs_shim
export LD_LIBRARY_PATH="$ACRE_BUILD/soft"
ways=$ACRE_BUILD/tests/standin/watch_cases
cases=$ACRE_BUILD/tests/standin/run_cases
examples=$ACRE_BUILD/examples/cuda

watch() { run "$acre" run --watch "$@"; }

# ---- every way to find the driver ----

for gate in audit preload; do
    for way in dlsym dlvsym four five itself thread next; do
        watch --gate=$gate -- "$ways" $way
        expect_rc 0
        expect_out "^$way: ok\$"
        expect_err '^acre: allocations: 1, 1 MiB in all; freed: 1; refused: 0; at most 1 MiB at a time$'
        expect_err '^  device +1 +1 +0 +1 MiB +0 bytes$'
    done
    # A child that forks before CUDA was used reports for itself.
    watch --gate=$gate -- "$ways" child
    expect_rc 0
    expect_out '^child: ok$'
    # Linked with the driver, but without a call.
    watch --gate=$gate -- "$ways" nothing
    expect_rc 0
    expect_err '^acre: watch_cases has not used CUDA$'
    watch --gate=$gate -- true
    expect_rc 0
    expect_err '^acre: true has not used CUDA$'
done

# ---- calls that acre does not see ----

# run_unseen OPTION... -- WAY: with the libraries of the tests
run_unseen() {
    run LD_LIBRARY_PATH="$ACRE_BUILD/soft:$ACRE_BUILD/tests/standin" "$acre" run --device cuda "$@"
    expect_rc 0
    expect_out ': ok$'
}
run_unseen --stats --gate=audit -- "$ways" plugin
expect_err '^acre: allocations: 1, 1 MiB in all; freed: 1; '
run_unseen --gate=audit -- "$ways" plugin
expect_no_err
run_unseen --gate=preload -- "$ways" plugin
expect_err "^acre: watch_cases has loaded libcuda\.so\.1, but acre saw no call of cuInit; 'acre doctor "
run_unseen --gate=preload --limit 8MiB -- "$ways" plugin
expect_err "^acre: watch_cases .* no call of cuInit; its memory is not limited; 'acre doctor "
own='^acre: watch_cases has loaded a libcuda\.so\.1 in a namespace of its own \(dlmopen\), whose calls acre does not see'
for gate in audit preload; do
    run_unseen --gate=$gate -- "$ways" dlmopen
    expect_err "$own\$"
    for way in dlmopen both; do
        run_unseen --gate=$gate --limit 8MiB -- "$ways" $way
        expect_err "$own; its memory is not limited\$"
        check "one line" test "$(wc -l <"$err")" -eq 1
    done
    run_unseen --gate=$gate --watch -- "$ways" both
    expect_err "$own\$"
    # A child of a shell, which has loaded no driver.
    run_unseen --gate=$gate --limit 8MiB -- bash -c "'$ways' dlmopen; true"
    expect_err "$own; its memory is not limited\$"
    check "one line" test "$(wc -l <"$err")" -eq 1
    run_unseen --gate=$gate -- "$ways" dlsym
    expect_no_err
    run "$acre" run --device cuda --gate=$gate -- true
    expect_err '^acre: true has not used CUDA$'
    run "$acre" run --device cuda --gate=$gate -- bash -c 'true; sleep 0; true; /bin/true; true'
    expect_no_err
done

# A driver that the program may close: the stand-in has a flag against it.
mkdir closable renamed copy
cp "$ACRE_BUILD/soft/libcuda.so.1" closable
python3 - closable/libcuda.so.1 <<'P'
import struct, sys
with open(sys.argv[1], "r+b") as file:
    data = bytearray(file.read())
    table, size, count = struct.unpack_from("<Q", data, 32)[0], *struct.unpack_from("<HH", data, 54)
    for i in range(count):
        kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", data, table + i * size)
        for at in range(offset, offset + length, 16) if kind == 2 else ():
            if struct.unpack_from("<Q", data, at)[0] == 0x6ffffffb:  # DT_FLAGS_1
                data[at + 8] &= ~8  # DF_1_NODELETE
    file.seek(0)
    file.write(data)
P
for gate in audit preload; do
    for way in again twice; do
        run LD_LIBRARY_PATH="$PWD"/closable "$acre" run --device cuda --gate=$gate --stats -- "$ways" $way
        expect_rc 0
        expect_err '^acre: allocations: 1, 1 MiB in all; freed: 1; '
    done
done
# Code of another name in the program's own namespace is no second driver; a copy is.
cp "$ACRE_BUILD/soft/libcuda.so.1" renamed/libcuda.so.1.1
ln -s libcuda.so.1.1 renamed/libcuda.so.1
run LD_LIBRARY_PATH="$PWD"/renamed "$acre" run --device cuda --limit 8MiB -- "$ways" dlsym
expect_rc 0
expect_no_err
cp "$ACRE_BUILD/soft/libcuda.so.1" copy
run "$acre" run --device cuda --limit 8MiB -- "$ways" copy
expect_rc 0
expect_err '^acre: watch_cases has loaded a second libcuda\.so\.1, whose calls acre does not see; its memory is not limited$'
# acre saw a call of cuInit, which failed.
run "$acre" run --device cuda --limit 8MiB -- env ACRE_FAULT=cuInit:1:from "$ways" init-fails
check "no wrong reason" test "$(grep -c 'saw no call' "$err")" -eq 0
# A program that uses CUDA in the background is not one that uses none.
run "$acre" run --device cuda -- bash -c "'$ways' dlsym & exit 0"
expect_no_err

# ---- programs that change their surroundings ----

watch --stats --leaks -- "$ways" environment
expect_err '^acre: allocations: 1, 1 MiB in all; freed: 1; '
watch --stats -- "$ways" stderr
expect_err '^acre: process [0-9]+, watch_cases, left its report to acre run:$'
expect_err '^acre: allocations: '
check "the program's file is its own" test "$(cat own)" = own
run "$acre" run --device cuda -- "$ways" stderr
check "the program's file is its own" test "$(cat own)" = own
for i in $(seq 12); do
    run timeout 200 "$acre" run --watch --leaks --errors -- "$ways" signal
    check "exit in a signal handler, $i: $rc" test $rc -eq 7
done
# The signal may have interrupted malloc, so the tool reports.
watch --leaks -- "$ways" signal-in-call
expect_rc 7
expect_err '^acre: process [0-9]+, watch_cases, left its report to acre run:$'
# One report for a process, whatever it executes.
run "$acre" run --watch -- sh -c "exec env '$ways' counted-killed"
check "one end: $(cat "$err")" test "$(grep -c 'was killed by SIGKILL' "$err")" -eq 1
expect_err '^acre: watch_cases was killed by SIGKILL$'

# ---- programs with the shared runtime ----

for gate in audit preload; do
    for example in allocate_copy_free find_at_run_time mapped_memory stream_ordered wish_pool block_list_pool; do
        [ -x "$examples/$example" ] || continue
        run "$examples/$example"
        plain=$rc
        cp "$out" "$work/plain"
        watch --gate=$gate --stats --leaks -- "$examples/$example"
        check "exit code of $example" test "$rc" -eq "$plain"
        check "output of $example" cmp -s "$out" "$work/plain"
        expect_err '^acre: everything was freed$'
    done
done

# ---- who called the library that called the driver ----

fake='libcublas_fake\.so\+0x[0-9a-f]+'
for gate in audit preload; do
    LD_LIBRARY_PATH=$ACRE_BUILD/soft:$ACRE_BUILD/tests/standin watch --gate=$gate --leaks -- "$ways" library
    expect_rc 1
    expect_out '^library: ok$'
    expect_err '^acre: not freed: 6$'
    expect_err "^ +3 MiB +3  device +cuMemAlloc +0x[0-9a-f]+ +$fake, called from watch_cases\\+0x[0-9a-f]+\$"
    expect_err "^ +2 MiB +2  device +cuMemAlloc +0x[0-9a-f]+ +$fake, called from watch_cases\\+0x[0-9a-f]+\$"
    expect_err '^ +1 MiB +1  device +cuMemAlloc +0x[0-9a-f]+ +watch_cases\+0x[0-9a-f]+$'
done
LD_LIBRARY_PATH=$ACRE_BUILD/soft:$ACRE_BUILD/tests/standin watch --leaks --json=from.json -- "$ways" library
check "JSON has called_from" python3 -c '
import json
leaks = json.loads(open("from.json").readline())["leaks"]
assert [leak["bytes"] >> 20 for leak in leaks] == [3, 2, 1], leaks
assert all(leak["called_from"].startswith("watch_cases+0x") for leak in leaks[:2])
assert leaks[0]["called_from"] != leaks[1]["called_from"] and "called_from" not in leaks[2]'
echo 'leak:watch_cases' >from.supp
LD_LIBRARY_PATH=$ACRE_BUILD/soft:$ACRE_BUILD/tests/standin watch --leaks --suppress from.supp -- "$ways" library
expect_rc 0
expect_err '^acre: not freed: 0 \(suppressed: 6\)$'
# Without stacks, three places of the library and one of the program, and the program's own.
LD_LIBRARY_PATH=$ACRE_BUILD/soft:$ACRE_BUILD/tests/standin ACRE_STACKS=0 watch --leaks -- "$ways" library
expect_err "^ +1 MiB +1  device +cuMemAlloc +0x[0-9a-f]+ +$fake\$"
check "no stack is walked" test "$(grep -c 'called from' "$err")" -eq 0
# No hook waits for the dynamic linker, which is in a constructor here.
for gate in audit preload; do
    run LD_LIBRARY_PATH="$ACRE_BUILD/soft:$ACRE_BUILD/tests/standin" \
        timeout 200 "$acre" run --watch --gate=$gate --leaks --stats -- "$ways" constructor
    expect_rc 0
    expect_out '^constructor: ok$'
    expect_err '^  device +2 +2 +0 +1 MiB +0 bytes$'
done

# ---- out of memory ----

# Lines that add up to the card, once for each of the first five places.
watch_oom() {
    run LD_LIBRARY_PATH="$ACRE_BUILD/soft:$ACRE_BUILD/tests/standin" ACRE_SOFT_BYTES=64MiB \
        "$acre" run --watch "$@" -- "$ways" oom
    expect_rc 0
    expect_out '^oom: ok$'
}
for gate in audit preload; do
    watch_oom --gate=$gate --stats
    expect_err '^acre: out of memory: cuMemAlloc of 48 MiB, called at watch_cases\+0x[0-9a-f]+$'
    expect_err '^acre: memory of device 0, by the library that allocated it:$'
    expect_err '^ +34 MiB +53\.1 %  watch_cases \(allocations: 2\)$'
    expect_err '^ +3 MiB +4\.7 %  libcublas_fake\.so \(allocations: 3\)$'
    expect_err '^ +[0-9.]+ MiB +[0-9.]+ %  other processes, contexts, code and rounding$'
    expect_err '^ +24 MiB +37\.5 %  free$'
    expect_err '^ +64 MiB +100\.0 %  in all$'
    check "five reports" test "$(grep -c '^acre: out of memory: ' "$err")" -eq 5
    check "one report for a place" test "$(grep -c ' of 48 MiB, ' "$err")" -eq 1
    expect_err '^acre: further out-of-memory errors are not reported$'
    # shellcheck disable=SC2016 # for awk
    check "the lines add up" awk '
        /^acre: memory of device/ { sum = 0 }
        / MiB +[0-9.]+ %  / { if (/ in all$/) exit sum != $1; sum += $1 }' "$err"
done
run LD_LIBRARY_PATH="$ACRE_BUILD/soft:$ACRE_BUILD/tests/standin" ACRE_SOFT_BYTES=64MiB ACRE_STACKS=16 \
    "$acre" run --watch -- "$ways" oom
expect_err '^ +3 MiB +4\.7 %  libcublas_fake\.so, called from watch_cases \(allocations: 3\)$'
# With NVML in the program, by process.
run LD_LIBRARY_PATH="$ACRE_BUILD/soft:$ACRE_BUILD/tests/standin:$ACRE_BUILD/tests/standin/nvml_processes" \
    ACRE_SOFT_BYTES=64MiB "$acre" run --watch -- "$ways" oom
expect_err "^ +1 MiB +1\\.6 %  this program's contexts, code and rounding\$"
expect_err '^ +1 MiB +1\.6 %  other processes$'
expect_err '^ +1 MiB +1\.6 %  the driver itself$'

# Under a limit, the lines say what is left of it. Before, only the card's free memory.
for gate in audit preload; do
    run LD_LIBRARY_PATH="$ACRE_BUILD/soft:$ACRE_BUILD/tests/standin" ACRE_SOFT_BYTES=1GiB timeout 200 \
        "$acre" run --device cuda --gate=$gate --limit 64MiB --leaks -- "$ways" oom
    expect_rc 1
    expect_out '^oom: ok$'
    expect_err '^acre: out of memory: cuMemAlloc of 48 MiB, called at watch_cases\+0x[0-9a-f]+'
    expect_err "^acre: limit 64 MiB: this process has [34][0-9] MiB, others have 0 bytes, 2[0-9] MiB left; 'acre limit [0-9]+ SIZE' "
    check "no guess" test "$(grep -c 'a limit applies' "$err")" -eq 0
done
run LD_LIBRARY_PATH="$ACRE_BUILD/soft:$ACRE_BUILD/tests/standin" ACRE_SOFT_BYTES=1GiB timeout 200 \
    "$acre" run --device cuda --limit 64MiB --limit-each --leaks -- "$ways" oom
expect_err "^acre: limit 64 MiB for each process: this process has [34][0-9] MiB, 2[0-9] MiB left; 'acre limit "

# ---- findings, formats, usage ----

watch --leaks --errors -- "$cases" leak
expect_rc 1
expect_err '^acre: not freed: '
# Only the exit code of acre run says it, not that of the process.
watch --leaks -- sh -c "'$cases' leak; echo \"code \$?\""
expect_rc 1
expect_out '^code 0$'
watch --json=report.json --stats -- "$ways" dlsym
expect_rc 0
check "the report is JSON without copies" python3 -c '
import json
run = json.loads(open("report.json").readline())
assert run["memory"][0]["made"] == 1 and "copied_bytes" not in run' 
watch --gate=none -- true
expect_rc 64
watch --bytes 1GiB -- true
expect_rc 64
expect_err 'for the soft device, not for --watch'
run ACRE_SHIM_LIBRARIES=/nonexistent "$acre" run --watch -- true
expect_rc 2
expect_err '^acre: ACRE_SHIM_LIBRARIES=/nonexistent: there is no libacre_shim\.so$'

# ---- calls that are counted ----

for gate in audit preload; do
    for way in counted counted-five; do
        watch --gate=$gate -- "$ways" $way
        expect_rc 0
        expect_out "^$way: ok\$"
        expect_err '^acre: calls that acre does not record: cuCtxSetLimit 12$'
    done
    watch --gate=$gate -- "$ways" counted-killed # the tool reports
    expect_err '^acre: calls that acre does not record: cuCtxSetLimit 12$'
done
watch -- "$ways" module
expect_out '^module: ok$'
expect_err '^acre: calls that acre does not record: cuModuleLoadData 1$'
watch -- "$ways" array
expect_out '^array: ok$'
expect_err '^  arrays +0 +0 +1 +0 bytes +0 bytes$'
watch --json=counted.json --stats -- "$ways" counted
check "JSON has the counted calls" python3 -c '
import json
run = json.loads(open("counted.json").readline())
assert run["unrecorded_calls"] == [{"call": "cuCtxSetLimit", "count": 12}]'
watch -- "$ways" dlsym
check "nothing is counted" test "$(grep -c 'does not record' "$err")" -eq 0

# ---- the classes of the driver's functions ----

classes() { sed -nE "s/^    ($1)\((cu[A-Za-z0-9_]*)\).*/\2/p" "$ACRE_SOURCE/shim/shim_classes.h" | sort; }
classes 'HOOK|COUNT|PASS' >"$work/classes"
nm -D --defined-only "$ACRE_BUILD/soft/libcuda.so.1" | awk '$3 ~ /^cu[A-Z]/ { print $3 }' | sort >"$work/names"
check "every function of the driver has one class, and no other name has one" diff "$work/names" "$work/classes"
classes HOOK >"$work/hooks"
classes 'HOOK|COUNT' >"$work/hooked"
sed -n 's/^    \(cu[A-Za-z0-9_]*\);$/\1/p' "$ACRE_SOURCE/shim/shim.map" | sort >"$work/exported"
check "shim.map exports HOOK and COUNT" cmp -s "$work/hooked" "$work/exported"
check "there are hooks" test -s "$work/hooks"
# Every call that the ledger wraps has a hook: its newest form.
sed -n '/define CALLS_LIST/,/^$/s/^    X(\(cu[A-Za-z]*\)).*/\1/p' "$ACRE_SOURCE/ledger/ledger_calls.c" >"$work/wrapped"
while read -r name; do
    check "$name has a hook" grep -qE "^${name}(_v2)?\$" "$work/hooks"
done <"$work/wrapped"
check "the ledger wraps calls" test "$(wc -l <"$work/wrapped")" -gt 20

finish
