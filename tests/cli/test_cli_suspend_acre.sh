#!/usr/bin/env bash
# acre suspend and acre resume of a program that uses libacre with ACRE_CONTROL=1: rules by tag, calls that wait, several
# devices, a device that is closed meanwhile.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 2
run true
export ACRE_SOFT_DEVICES=2 ACRE_SOFT_BYTES=256MiB ACRE_STATS=1
mib=1048576

start() {
    mkfifo to from
    env ACRE_CONTROL=1 "$@" "$ACRE_BUILD/tests/api/suspend_acre" <to >from &
    program=$!
    exec 7>to 8<from
    rm to from
    read -r -u 8 answer
    check "the program runs: $answer" test "$answer" = ok
}
ask() {
    echo "$1" >&7
    read -r -u 8 answer
}
tell() {
    ask "$1"
    check "$1: $answer" test "$answer" = ok
}
stop() {
    echo exit >&7
    wait $program
    check "the program ends with 0, not $?" test $? -eq 0
    exec 7>&- 8<&-
}
# expect_state STATE: of the program's thread, now or soon.
expect_state() {
    local i
    for ((i = 0; i < 600; i++)); do
        ask state
        [ "$answer" = "$1" ] && break
        sleep 0.05
    done
    check "the thread: $answer, not $1" test "$answer" = "$1"
}

# ---- all of it ----

start
run_leaks "$acre" suspend --json $program
expect_rc 0
expect_json '.devices | map(.device) == ["soft:0", "soft:1"]'
expect_json ".kept_bytes == 80 * $mib and .copied_bytes == .kept_bytes and .released_bytes >= .kept_bytes and .dropped_bytes == 0"
expect_json '.stays | .card_bytes == null and .other_bytes == null and .driver_pool_bytes == 0'
run "$acre" ps --json
expect_rc 0
expect_json ".processes[] | select(.pid == $program) | .state == \"suspended\" and .suspended_bytes >= 80 * $mib and .held_bytes == 0"
run "$acre" ps
expect_out "^ *$program +soft:0,1 +suspended "
run "$acre" ps --pid $program
expect_out ', suspended [0-9.]+ MiB'
# Allocations and copies wait; frees do not.
tell alloc
expect_state waits
tell free
run "$acre" resume $program
expect_rc 0
expect_state 'done'
tell check
run "$acre" ps --json
expect_json ".processes[] | select(.pid == $program) | .state == \"running\" and .suspended_bytes == 0"
run "$acre" suspend $program
expect_rc 0
tell copy
expect_state waits
run_leaks "$acre" resume --json $program
expect_rc 0
expect_json '.devices | length == 2'
expect_state 'done'
stop

# ---- by tag ----

start
run "$acre" suspend --json --keep weights=host --drop kv --rest stay $program
expect_rc 0
expect_json ".kept_bytes == 32 * $mib and .dropped_bytes == 32 * $mib and .stayed_bytes >= 16 * $mib"
run "$acre" resume $program
expect_rc 0
tell check
mkdir away
run_leaks "$acre" suspend --json --keep weights=file --drop kv --folder away $program
expect_rc 0
expect_json ".file_bytes >= 32 * $mib and .host_bytes >= 16 * $mib and .dropped_bytes == 32 * $mib"
run "$acre" resume $program
expect_rc 0
tell check
# What is not written in between is copied once.
run "$acre" suspend --retain --drop kv $program
expect_rc 0
run "$acre" resume $program
expect_rc 0
run "$acre" suspend --json --retain --unchanged weights --drop kv $program
expect_rc 0
expect_json ".kept_bytes == 48 * $mib and .copied_bytes == 16 * $mib"
run "$acre" resume $program
expect_rc 0
tell check
stop

# ---- a device is closed while it is suspended ----

start
run "$acre" suspend $program
expect_rc 0
tell close
run "$acre" suspend $program
expect_rc 2
expect_err 'is suspended already'
run "$acre" resume --json $program
expect_rc 0
expect_json '.devices | map(.device) == ["soft:0"]'
tell check
run "$acre" suspend --json $program
expect_rc 0
expect_json '.devices | map(.device) == ["soft:0"]'
# A suspended program may end.
stop

# ---- the device has too little memory ----

# The first chunk that the program does not need to begin is refused, once: the resume then needs it. It may be
# repeated.
begins() { echo exit | env ACRE_FAULT="cuMemCreate:$1:from" "$ACRE_BUILD/tests/api/suspend_acre" | grep -x ok >/dev/null; }
chunk=1
until begins $chunk || [ $chunk -gt 64 ]; do
    chunk=$((chunk + 1))
done
start ACRE_FAULT=cuMemCreate:$chunk:once
run "$acre" suspend $program
expect_rc 0
run "$acre" resume $program
expect_rc 2
expect_err "^acre: process $program: .* bytes of device memory are missing"
run "$acre" ps --json
expect_json ".processes[] | select(.pid == $program) | .state == \"suspended\""
run "$acre" resume $program
expect_rc 0
tell check
stop

finish
