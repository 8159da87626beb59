# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # variables of lib.sh and of the tests
# Programs that publish statistics, for the tests of `acre top`; sourced after lib.sh. A program
# reads its orders from a pipe.

declare -A order_fd order_count

# publish NAME [VARIABLE=VALUE...] PROGRAM ARGUMENT...: starts a program and waits until it is ready.
# Sets $pid.
publish() {
    local name=$1 fd
    shift
    mkfifo "$work/$name.in"
    env "$@" <"$work/$name.in" >"$work/$name.out" 2>"$work/$name.err" &
    pid=$!
    exec {fd}>"$work/$name.in"
    order_fd[$name]=$fd
    order_count[$name]=0
    wait_for grep -q '^ready' "$work/$name.out"
}

# wait_for COMMAND...: waits until the command succeeds. A slow machine takes longer and does not fail.
wait_for() {
    for _ in $(seq 1000); do
        "$@" && return 0
        sleep 0.05
    done
    rc=1
    fail "waited in vain: $*"
    return 1
}

has_done() { [ "$(grep -c '^done' "$work/$1.out")" -ge "$2" ]; }

# order NAME LINE: sends a line and waits until the program has done what it says.
order() {
    echo "$2" >&"${order_fd[$1]}"
    order_count[$1]=$((order_count[$1] + 1))
    wait_for has_done "$1" "${order_count[$1]}"
}

# close_program NAME: closes its input, so that it ends.
close_program() {
    local fd=${order_fd[$1]}
    exec {fd}>&-
}
