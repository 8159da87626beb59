#!/usr/bin/env bash
# Traces with call stacks (ACRE_STACKS): memory by the line that allocated it.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"

leak=$ACRE_BUILD/examples/mistakes/leak

run "$no_gpu" ACRE_STACKS=4 ACRE_TRACE="$work/leak.trace" "$leak"
expect_rc 0
run_leaks "$acre" trace "$work/leak.trace"
expect_rc 0
expect_out '^ALLOCATED BY +PEAK +AT PEAK +BLOCKS +AT END +BLOCKS +ALLOCS$'
expect_out '^make_buffer at leak\.c:10 from main at leak\.c:21 +390\.6 KiB +390\.6 KiB +4 +97\.7 KiB +1 +4$'

run_leaks "$acre" trace --json "$work/leak.trace"
expect_json '.by_stack | length == 1'
expect_json '.by_stack[0].frames[0] | test("^make_buffer at .*leak\\.c:10$")'
expect_json '.by_stack[0].frames[1] | test("^main at .*leak\\.c:21$")'
expect_json '.by_stack[0].peak_bytes == 400000 and .by_stack[0].live_bytes == 100000'
expect_json '.largest_at_end[0].stack == .by_stack[0].id'

# The events name the stack; replay and plan read the trace as any other.
run "$acre" trace --list "$work/leak.trace"
expect_rc 0
expect_out 'alloc .* stack=[0-9]+$'
run "$no_gpu" "$acre" replay "$work/leak.trace"
expect_rc 0

# Without the program, frames are its name and offsets.
patched=$work/leak.moved
sed "s#$leak#$(printf '%s' "$leak" | sed 's/leak$/gone/')#g" "$work/leak.trace" >"$patched"
run "$acre" trace "$patched"
expect_rc 0
expect_out '^/.*/gone\+0x[0-9a-f]+ from '

# Without ACRE_STACKS a trace has no stacks, and stays readable by older tools.
run "$no_gpu" ACRE_TRACE="$work/plain.trace" "$leak"
check "version 1" test "$(od -An -tu4 -j8 -N4 "$work/plain.trace" | tr -d ' ')" -eq 1
check "version 2" test "$(od -An -tu4 -j8 -N4 "$work/leak.trace" | tr -d ' ')" -eq 2
run "$acre" trace "$work/plain.trace"
expect_rc 0
check "no stacks" bash -c "! grep -q 'ALLOCATED BY' '$out'"

# Damaged stacks are shown as far as they go, or refused; nothing crashes.
for cut in 4200 4300 5000 69000; do
    head -c "$cut" "$work/leak.trace" >"$work/cut.trace"
    run "$acre" trace "$work/cut.trace"
    expect_no_crash
done

# In a ring, stacks leave room for the newest events, and the log says that stacks are missing.
run "$no_gpu" ACRE_LOG=stderr ACRE_STACKS=40 ACRE_TRACE="$work/ring.trace" ACRE_TRACE_RING=yes \
    ACRE_TRACE_BYTES=1MiB "$ACRE_BUILD/tests/api/acre_cases" soft many-stacks
expect_rc 0
expect_err '^acre: warning: trace: half of the trace is full of call stacks: new stacks are left out'
check "once" test "$(grep -c 'half of the trace' "$err")" -eq 1
check "it has not ended" test "$(grep -c 'the trace has ended' "$err")" -eq 0
run "$acre" trace --list "$work/ring.trace"
expect_rc 0
check "allocations with stacks" grep -q ' alloc .*bytes=1000 .*stack=[1-9]' "$out"
check "allocations without" grep -q ' alloc .*bytes=1000 .*stream=0x0$' "$out"
check "the last three were not freed" test "$(grep -E ' (alloc|free) ' "$out" | tail -n 3 | grep -c ' alloc ')" -eq 3
finish
