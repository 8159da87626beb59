#!/usr/bin/env bash
# acre suspend and acre resume: a program under acre run, suspended in the middle of its work; programs that
# cannot be suspended; the one that asks, or the program, is killed. The stand-in of libcuda.so.1 is the driver here.
# tests/cli/test_cli_suspend_acre.sh has programs that call acre.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 2

needs_shim
run true
export LD_LIBRARY_PATH="$ACRE_BUILD/soft"
export ACRE_SOFT_BYTES=512MiB

# start OPTION...: the program under acre run.
start() {
    mkfifo to from
    "$acre" run --device cuda "$@" -- "$ACRE_BUILD/tests/standin/suspend_cases" <to >from &
    program=$!
    exec 7>to 8<from
    rm to from
    read -r -u 8 answer
    check "the program runs: $answer" test "$answer" = ok
}
# ask WORD: what the program answers, in $answer.
ask() {
    echo "$1" >&7
    read -r -t 200 -u 8 answer || answer='no answer'
}
# tell WORD: the program does it.
tell() {
    ask "$1"
    check "$1: $answer" test "$answer" = ok
}
# sleeps PID: every thread of the process and of its children sleeps.
# shellcheck disable=SC2317 # wait_for calls it
sleeps() {
    local pids stat
    pids=$(pgrep -P "$1")
    # shellcheck disable=SC2086 # process numbers
    for stat in $(printf '/proc/%s/task/*/stat ' "$1" $pids); do
        read -r stat 2>/dev/null <"$stat" || continue # it has ended
        [[ ${stat##*)} == ' S '* ]] || return 1
    done
}
# expect_still: no thread completes a round. A thread may be between its last call and the end of a round; then it waits.
expect_still() {
    wait_for sleeps $program
    ask rounds
    local before=$answer
    sleep 0.1
    ask rounds
    check "the program stands still at $before: $answer" test "$answer" = "$before"
}
# expect_moving: every thread completes rounds.
expect_moving() { tell move; }
finish_program() {
    tell stop
    echo exit >&7
    wait $program
    check "the program ends with 0, not $?" test $? -eq 0
    exec 7>&- 8<&-
}
kill_program() {
    kill -9 $program
    wait $program 2>/dev/null
    exec 7>&- 8<&-
}

# ---- in the middle of its work ----

for gate in audit preload; do
    start --gate=$gate
    for _ in 1 2 3 4 5; do
        expect_moving
        run "$acre" suspend --json $program
        expect_rc 0
        expect_json '.schema == "acre-suspend/1" and .pid == '$program' and .seconds >= 0'
        expect_json '.released_bytes > 0 and .host_bytes >= .kept_bytes and .kept_bytes > 0 and .dropped_bytes == 0'
        expect_json '.devices | length == 1 and .[0].device == "cuda:0"'
        expect_still
        run "$acre" resume --json $program
        expect_rc 0
        expect_json '.schema == "acre-resume/1" and .released_bytes > 0 and (.devices | length) == 1'
    done
    finish_program
done

start
run "$acre" suspend $program
expect_rc 0
expect_out "^process $program suspended in [0-9.]+ s\$"
expect_out '^cuda:0 +[0-9.]+ MiB'
expect_out '^stays on the device: '
run "$acre" ps --json
expect_json ".processes[] | select(.pid == $program) | .state == \"suspended\" and .suspended_bytes > 0"
# Frees do not wait, and neither do queries of the device.
tell free
tell info
run "$acre" suspend $program
expect_rc 2
expect_err "^acre: process $program: it is suspended already; acre resume brings it back\$"
expect_still
# Each kind of call waits.
tell each
wait_for sleeps $program
ask each
check "no call has returned: $answer" test "$answer" = 0
run "$acre" resume $program
expect_rc 0
# shellcheck disable=SC2317 # wait_for calls it
have_returned() {
    ask each
    [ "$answer" = all ]
}
wait_for have_returned
run "$acre" resume $program
expect_rc 2
expect_err "^acre: process $program is not suspended\$"
run "$acre" suspend $program
expect_rc 0
run "$acre" resume $program
expect_rc 0
expect_out "^process $program resumed in [0-9.]+ s: [0-9.]+ MiB of device memory"
run "$acre" ps --json
expect_json ".processes[] | select(.pid == $program) | .state == \"running\" and .suspended_bytes == 0"
expect_moving
# The contents are in a file.
mkdir away
run "$acre" suspend --json --rest file --folder away --retain $program
expect_rc 0
expect_json '.file_bytes > 0 and .host_bytes == 0'
check "the file has no name" test -z "$(ls away)"
expect_still
run "$acre" resume $program
expect_rc 0
expect_moving
finish_program

# The process that `acre run` with a limit stays: its program is meant.
start --limit=256MiB
tool=$program
run "$acre" suspend --json $tool
expect_rc 0
expect_json ".pid == $tool and .released_bytes > 0"
expect_still
run "$acre" resume $tool
expect_rc 0
expect_moving
finish_program

# Other ways to serve.
for option in --free=defer --zero --limit=256MiB; do
    start $option
    tell chunk
    expect_moving
    # With a limit, acre run is the parent of the program.
    asked=$program
    [ $option = --limit=256MiB ] && asked=$(pgrep -P $program -x suspend_cases)
    run "$acre" suspend --json "$asked"
    expect_rc 0
    expect_json '.stays.program_bytes == 8388608 and .stays.acre_bytes == 0'
    tell free
    expect_still
    run "$acre" resume "$asked"
    expect_rc 0
    expect_moving
    tell chunk
    run "$acre" suspend --json "$asked"
    expect_json '.stays.program_bytes == 0'
    run "$acre" resume "$asked"
    finish_program
done

# ---- programs that cannot be suspended now ----

start
tell capture
run "$acre" suspend --timeout 0.2 $program
expect_rc 2
expect_err "^acre: process $program: .*a stream is being captured"
expect_moving
tell capture
# The copy waits for a host function, and with it everything else.
tell block
run "$acre" suspend --timeout 0.2 $program
expect_rc 2
expect_err "^acre: process $program: .*a call of cuMemcpyDtoH_v2 has not returned in time"
tell block
expect_moving
run "$acre" suspend $program
expect_rc 0
run "$acre" resume $program
expect_rc 0
tell around
run "$acre" suspend $program
expect_rc 2
expect_err "has the address of cuMemcpyAsync past acre's hooks"
expect_moving
finish_program

# ---- killed ----

# The one that asks ends before the answer.
start
python3 - "$XDG_RUNTIME_DIR/acre" <<'P'
import glob, os, socket, sys
os.chdir(sys.argv[1])
for text in (b"suspend rest=keep\n", b"suspend rest=everything\n", b"suspend x=\tretain\n", b"suspend keep=\n",
             b"suspend timeout_ms=x\n", b"suspend " + b"\tdrop=a" * 40 + b"\n", b"suspend " + b"x" * 9000):
    s = socket.socket(socket.AF_UNIX)
    s.connect(glob.glob("*.control")[0])
    s.sendall(text)
    if b"rest=keep" not in text and b"\n" in text:
        assert s.recv(200).startswith(b"error "), text
    s.close()
P
check "malformed requests are refused" test $? -eq 0
run "$acre" resume $program
expect_rc 0
expect_moving
# The program ends, or is killed, while it is suspended.
run "$acre" suspend $program
expect_rc 0
echo exit >&7
wait $program
check "a suspended program ends with 0, not $?" test $? -eq 0
exec 7>&- 8<&-
start
run "$acre" suspend $program
expect_rc 0
kill_program
run "$acre" resume $program
expect_rc 2
expect_err "^acre: there is no process $program\$"

# The context ends, with all memory. An allocation that waits does not keep it.
start
run "$acre" suspend $program
expect_rc 0
tell each
ask reset
check "reset: $answer" test "$answer" != 'no answer'
run "$acre" suspend $program
expect_rc 2
expect_err "^acre: process $program has no device open\$"
run "$acre" resume $program
expect_rc 2
expect_err "^acre: process $program is not suspended\$"
kill_program

# ---- errors ----

run "$acre" suspend $$
expect_rc 2
expect_err "^acre: process $$ takes no requests: "
for arguments in '' 'me' '1 2' '--rest everything 1' '--keep w=disk 1' '--keep =host 1' '--rest file 1' '--timeout 0 1' \
    '--timeout soon 1' '--drop'; do
    # shellcheck disable=SC2086
    run "$acre" suspend $arguments
    expect_rc 64
done
run "$acre" suspend --rest file --folder "$work/none" $$
expect_rc 2
expect_err 'there is no such folder'
run "$acre" resume
expect_rc 64

finish
