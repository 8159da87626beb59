#!/usr/bin/env bash
# Data on stdout, messages on stderr, colour on terminals only, and write errors are reported.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 2

# Pipes and NO_COLOR never get escape codes.
for command in info doctor demo; do
    run "$no_gpu" "$small" TERM=xterm-256color "$acre" "$command"
    expect_plain
    run "$no_gpu" "$small" TERM=xterm-256color NO_COLOR=1 "$acre" "$command"
    expect_plain
done

# On a terminal the output has colour, unless NO_COLOR is set or the terminal is dumb.
if has_terminals; then
    tty() { run "$no_gpu" "$@" script -qec "'$acre' info" /dev/null; }
    escape=$(printf '\033')
    tty TERM=xterm
    expect_rc 0
    check "colour on a terminal" grep -q "$escape" "$out"
    tty TERM=xterm NO_COLOR=1
    expect_plain
    tty TERM=dumb
    expect_plain
    tty TERM=xterm NO_COLOR=
    check "an empty NO_COLOR is none" grep -q "$escape" "$out"
else
    without_terminals
fi

# stdout is full or closed: exit 2 and a message. The message has the reason unless the output is
# longer than stdio's buffer, as with --help.
full() {
    last="$* >/dev/full"
    env "$no_gpu" "$small" "$@" >/dev/full 2>"$err"
    rc=$?
    : >"$out"
    expect_rc 2
    expect_err '^acre: cannot write to standard output: (No space left on device|an earlier write failed)$'
}
closed() {
    last="$* >&-"
    env "$no_gpu" "$small" "$@" >&- 2>"$err"
    rc=$?
    : >"$out"
    expect_rc 2
    expect_err '^acre: cannot write to standard output: (Bad file descriptor|an earlier write failed)$'
}
for command in info 'info --json' doctor 'doctor --json' demo 'demo --json' --help --version \
    'info --help'; do
    # shellcheck disable=SC2086 # the words of a command
    full "$acre" $command
    # shellcheck disable=SC2086
    closed "$acre" $command
done

# Closed stdin and stderr do not matter.
env "$no_gpu" "$acre" info >"$out" 2>&- <&-
rc=$?
last='info with stdin and stderr closed'
expect_rc 0
expect_out '^soft:0 '

# JSON is one document and nothing else, whatever is printed on stderr.
run "$no_gpu" ACRE_SOFT_BYTE=1 "$acre" info --json
expect_rc 0
check "one document" test "$(jq -s length "$out")" -eq 1
expect_err 'warning'

finish
