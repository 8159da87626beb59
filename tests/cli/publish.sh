# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # variables of lib.sh and of the tests
# Programs that publish statistics, for the tests of `acre top` and `acre stats`; sourced after lib.sh. A program
# reads its orders from a pipe, and answers in another.

declare -A order_fd answer_fd

# publish NAME [VARIABLE=VALUE...] PROGRAM ARGUMENT...: starts a program and waits until it is ready.
# Sets $pid.
publish() {
    local name=$1 fd
    shift
    mkfifo "$work/$name.in" "$work/$name.out"
    env "$@" <"$work/$name.in" >"$work/$name.out" 2>"$work/$name.err" &
    pid=$!
    exec {fd}>"$work/$name.in"
    order_fd[$name]=$fd
    exec {fd}<"$work/$name.out"
    answer_fd[$name]=$fd
    expect_answer "$name" ready
}

# expect_answer NAME WORD: waits for the next line of the program.
expect_answer() {
    local said='no answer, or the program has ended'
    IFS= read -r -t 200 said <&"${answer_fd[$1]}"
    check "$1: $said" test "$said" = "$2"
}

# order NAME LINE: sends a line and waits until the program has done what it says.
order() {
    echo "$2" >&"${order_fd[$1]}"
    expect_answer "$1" "done"
}

# close_program NAME: closes its input, so that it ends.
close_program() {
    local fd=${order_fd[$1]}
    exec {fd}>&-
}
