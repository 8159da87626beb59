#!/usr/bin/env bash
# ACRE_LOG, ACRE_DEBUG and ACRE_STACKS, set from outside: where messages go, and what is refused.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"

leak=$ACRE_BUILD/examples/mistakes/leak
message='^acre: warning: pool: soft:0: leak: 1 blocks of a pool, [0-9]+ bytes, not freed; ACRE_DEBUG=1 shows where they were allocated$'

run "$no_gpu" ACRE_LOG=stderr "$leak"
expect_rc 0
expect_err "$message"
check "one line" test "$(wc -l <"$err")" -eq 1
run "$no_gpu" ACRE_LOG=stderr:error "$leak"
expect_rc 0
expect_no_err
run "$no_gpu" ACRE_LOG=stderr:info "$leak"
expect_err '^acre: info: device: opened soft:0 \('
expect_err "$message"

# A file, with the process ID; a second program appends.
run "$no_gpu" ACRE_LOG="$work/log.%p" "$leak"
expect_rc 0
expect_no_err
check "one file" test "$(find "$work" -name 'log.[0-9]*' | wc -l)" -eq 1
check "it has the message" grep -Eq "$message" "$work"/log.[0-9]*
run "$no_gpu" ACRE_LOG="$work/both" "$leak"
run "$no_gpu" ACRE_LOG="$work/both" "$leak"
check "two messages" test "$(grep -Ec "$message" "$work/both")" -eq 2

# Settings that make no sense are refused, and say what is expected.
run "$no_gpu" ACRE_LOG=stderr:loud "$leak"
expect_rc 2
expect_err "^acre_open: ACRE_LOG is 'stderr:loud': expected stderr or a file, then :error, :warn, :info or :debug$"
run "$no_gpu" ACRE_LOG=/nonexistent/log "$leak"
expect_rc 2
expect_err "^acre_open: ACRE_LOG is '/nonexistent/log': No such file or directory; expected stderr or a file"
run "$no_gpu" ACRE_STACKS=deep "$leak"
expect_rc 2
expect_err "^acre_open: ACRE_STACKS is 'deep': expected a number of frames up to 64, such as 8 or 8:fp$"
run "$no_gpu" ACRE_DEBUG=maybe "$leak"
expect_rc 2
expect_err "^acre_open: ACRE_DEBUG is 'maybe': expected 0, 1, no, yes"

# ACRE_LOG moves the messages of ACRE_DEBUG; ACRE_STACKS=0 leaves out the call stacks.
run "$no_gpu" ACRE_DEBUG=1 ACRE_LOG="$work/debug" "$leak"
expect_no_err
check "the line is in the file" grep -q 'allocated by make_buffer at ' "$work/debug"
run "$no_gpu" ACRE_DEBUG=1 ACRE_STACKS=0 "$leak"
expect_err "$message"
# Frame pointers find the same calls.
run "$no_gpu" ACRE_DEBUG=1 ACRE_STACKS=8:fp "$leak"
expect_err 'leak: 100000 bytes in 1 block of a pool not freed; allocated by make_buffer at .*leak\.c:10$'
expect_err 'called by main at .*leak\.c:21$'
run "$no_gpu" ACRE_DEBUG=1 ACRE_STACKS=1 "$leak"
check "one frame" test "$(wc -l <"$err")" -eq 1

# A setuid or setgid program ignores the variables: its user must not make it write files.
if [ "$(id -u)" -eq 0 ] && ! is_sanitized; then
    # Linked statically: such a program does not search libraries relative to itself.
    cc -I"$ACRE_SOURCE/include" "$ACRE_SOURCE/examples/mistakes/leak.c" "$ACRE_BUILD/libacre.a" -pthread -lm -o "$work/secure"
    chgrp nogroup "$work/secure"
    chmod 2755 "$work/secure"
    run "$no_gpu" ACRE_DEBUG=1 ACRE_LOG="$work/secret" ACRE_DEVICE=soft "$work/secure"
    expect_rc 0
    check "it wrote no file" test ! -e "$work/secret"
    expect_no_err
fi

# A refused call is logged once, under the name of the call that the program made.
cases=$ACRE_BUILD/tests/api/acre_cases
run "$no_gpu" ACRE_DEBUG=1 ACRE_LOG=stderr:error "$cases" soft wrong-calls
expect_rc 0
check "the log has the details of the calls" diff "$out" <(sed -n 's/^acre: error: call: ACRE_E_[A-Z]*: //p' "$err")
for call in acre_alloc acre_pool_alloc_many acre_pool_realloc acre_plan_want acre_plan_want_for acre_vec_append \
    acre_mem_realloc acre_share_vec acre_vec_destroy acre_pool_trim; do
    expect_out "^$call: "
done
check "12 calls" test "$(wc -l <"$out")" -eq 12

# A pipe: without a reader it is refused at once, and a reader that ends does not end the program.
mkfifo "$work/pipe"
run "$no_gpu" ACRE_LOG="$work/pipe" timeout 200 "$leak"
expect_rc 2
expect_err "^acre_open: ACRE_LOG is '.*pipe': No such device or address; expected stderr or a file"
exec 9<>"$work/pipe" # does not wait for a writer
head -c 1 <&9 >/dev/null &
exec 9>&-
run "$no_gpu" ACRE_DEBUG=1 ACRE_LOG="$work/pipe:debug" timeout 200 "$leak"
expect_rc 0
wait

# A copy of freed memory names the allocation and the free.
run "$no_gpu" ACRE_DEBUG=1 "$cases" soft use-after-free
expect_rc 0
expect_err 'ACRE_E_POINTER: acre_copy_sync: '
expect_err '^acre:     called by use_after_free at .*acre_cases\.c:[0-9]+$'
expect_err '^acre:     allocated by use_after_free at .*acre_cases\.c:[0-9]+$'
expect_err '^acre:     freed by use_after_free at .*acre_cases\.c:[0-9]+$'

# A program that closes all descriptors keeps its files to itself, and the log goes on.
cd "$work" || exit 2
run "$no_gpu" ACRE_DEBUG=1 ACRE_LOG=closed.log ACRE_TRACE=closed.trace ACRE_STATS=closed.stats \
    ACRE_STACKS=4 "$cases" soft closed-files
expect_rc 0
check "its file is empty" test -e mine -a ! -s mine
rm -f mine
check "the leak is in the log" grep -q 'leak: 3000 bytes in 3 blocks .* allocated by leak_blocks at ' closed.log
check "the trace's end is in the log" grep -q 'the trace has ended: its file cannot be grown: Bad file descriptor' closed.log
run "$acre" trace closed.trace
expect_rc 0
expect_out '^alloc_right at acre_cases\.c:[0-9]+ from main at '

# In a library that contains libacre.a, the library's own functions are the program's.
if ! is_sanitized; then
    sed 's/^int main(void)/int plugin(void); int plugin(void)/' "$ACRE_SOURCE/examples/mistakes/leak.c" >plugin.c
    echo 'int plugin(void); int main(void) { return plugin(); }' >program.c
    cc -g -shared -fPIC -I"$ACRE_SOURCE/include" plugin.c "$ACRE_BUILD/libacre.a" -pthread -lm -o libplugin.so
    cc -g program.c -L. -lplugin -Wl,-rpath,"$work" -o program
    run "$no_gpu" ACRE_DEBUG=1 ./program
    expect_err 'leak: 100000 bytes in 1 block of a pool not freed; allocated by make_buffer at .*plugin\.c:10$'
    expect_err 'called by plugin at .*plugin\.c:21$'
    run "$no_gpu" ACRE_STACKS=2 ACRE_TRACE=plugin.trace ./program
    run "$acre" trace plugin.trace
    expect_out '^make_buffer at plugin\.c:10 from plugin at plugin\.c:21 '
fi
finish
